// K or V as 4-bit floats (e2m1) in blocks of g channels of one head of one token, with one scale byte per block. A base
// class for the Tokens of a LevelCache, which must have push_back(x).
// Bytes: H*T * (4*ceil(D/8) + D/g), and 4 with a global scale.
#pragma once

#include "kvc/quant/level_codes.h"
#include "kvc/quant/pack_bits.h"
#include "kvc/quant/small_floats.h"
#include "kvc/quant/token_blocks.h"
#include "kvc/step_writes.h"

namespace kvc {

class E2m1Tokens {
 public:
  int64_t n_tokens() const { return codes_.n_tokens(); }
  int64_t droppable(int64_t n_tokens) const { return codes_.droppable(n_tokens); }
  void drop_front(int64_t n_tokens) {
    codes_.drop_front(n_tokens);
    scales_.drop_front(n_tokens);
  }

  template <class F>
  void for_each_block(F f) const {  // f(LevelCodes, index of the first token)
    auto block = common_;
    int64_t first = 0;
    for (size_t i = 0; i < codes_.blocks().size(); ++i) {
      block.codes = codes_.blocks()[i], block.scale = scales_.blocks()[i];
      f(block, first);
      first += block.n_tokens();
    }
  }

  void add_to(Footprint& bytes, CacheTensor tensor) const {
    codes_.add_to(bytes, tensor, ByteKind::codes);
    scales_.add_to(bytes, tensor, ByteKind::scales);
    bytes.add(tensor, ByteKind::scales, common_.global);
  }

 protected:
  explicit E2m1Tokens(NumberType byte_scale) : common_{.byte_scale = byte_scale, .book = e2m1_book()} {}

  // One token on a device, with the step's other writes. false: there are none, and the token is to be stored.
  bool write(const at::Tensor& x, BlockRule rule, int64_t block) {
    auto* writes = StepWrites::of_device(x.device());
    if (!writes || x.size(1) != 1 || !StepWrites::takes(x)) return false;
    common_.head_dim = x.size(2);
    const auto codes = codes_.next_place(x.size(0), n_packed_words(x.size(2), 4), *writes);
    const auto scales = scales_.next_place(x.size(0), x.size(2) / block, *writes);
    DeviceWrite write{.what = DeviceWrite::What::blocks, .to = StepWrites::rows_of(codes), .rule = rule};
    write.bits = 4, write.group_size = static_cast<int>(block);
    write.scale = StepWrites::rows_of(scales), write.scale.type = common_.byte_scale;
    if (common_.global.defined()) write.global = common_.global.const_data_ptr<float>();
    writes->encode(x, write, {codes, scales, common_.global});
    return true;
  }

  void store(const at::Tensor& codes, const at::Tensor& scales) {  // [H, t, D / g, g], one per byte; [H, t, D / g]; u8
    common_.head_dim = codes.size(2) * codes.size(3);
    codes_.push_back(pack_bits(codes.flatten(2), 4));
    scales_.push_back(scales);
  }

  LevelCodes common_;  // what all blocks have in common; its global scale is set by the method

 private:
  TokenBlocks codes_{at::kInt, 64}, scales_{at::kByte, 64};
};

}  // namespace kvc
