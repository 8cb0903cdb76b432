// A cache that re-encodes everything: first the prompt; then, each time the window of uncompressed tokens is full, the
// decoded codes and the window together, as one new encoding. A decode step appends, attends, then encodes; the
// encoding happens in the next append.
// Source: QuantizedCache of Hugging Face transformers (its window is full at `window` tokens, but never at one).
// Bytes, K and V alike: n_groups * (g*b/8 + 4) + 2 * H*D * tokens in the window (8 and 4 with Precision::exact);
// n_groups of n encoded tokens: ceil(H*n*D / g), or D * ceil(H*n / g) in order rows.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "kvc/quant/group_quant.h"
#include "kvc/quant/parts_cache.h"
#include "kvc/quant/token_blocks.h"

namespace kvc {

KVC_EXPORT at::Tensor to_groups(const at::Tensor& x, GroupOrder order, int64_t group_size);            // [n_groups, g]
KVC_EXPORT at::Tensor from_groups(const at::Tensor& groups, GroupOrder order, at::IntArrayRef sizes);  // [H, T, D]

struct RequantizedFormat {
  GroupOrder k = GroupOrder::flat, v = GroupOrder::flat;
  int64_t group_size = 64;  // a multiple of 16
  int64_t window = 128;
  Precision precision = Precision::real;
  std::function<GroupCodes(const at::Tensor& groups)> encode;  // [1, n_groups, g] fp32 -> codes of axis channels
};

// K or V.
struct KVC_EXPORT RequantizedTokens {
  explicit RequantizedTokens(Precision precision) : recent(storage_type(precision)) {}

  GroupCodes codes;  // as [H, T, D] where a group lies within a token, else [1, n_groups, g]
  TokenBlocks recent;
  std::vector<int64_t> sizes = {0, 0, 0};  // H, encoded tokens, D
  bool by_token = false;                   // groups lie within tokens, so that attention can use the codes directly

  void encode_all(GroupOrder order, const RequantizedFormat& format);
  at::Tensor dequantize(GroupOrder order) const;  // [H, T, D] fp32; undefined without tokens
  void add_to(Footprint& bytes, CacheTensor tensor) const;
};

class KVC_EXPORT RequantizedCache final : public PartsCache {
 public:
  RequantizedCache(const LayerInfo& info, const RequantizedFormat& format);  // the format outlives the cache

  void append(const NewTokens& tokens) override;
  KeyValue dequantize() const override { return {k_.dequantize(format_.k), v_.dequantize(format_.v)}; }
  int64_t length() const override { return n_encoded_tokens() + n_recent(); }
  int64_t n_encoded_tokens() const override { return held().sizes[1]; }
  Footprint footprint() const override;

 private:
  void read_k(CompressedAttention& attention) const override;
  void read_v(CompressedAttention& attention) const override;
  const RequantizedTokens& held() const { return info().holds_k() ? k_ : v_; }  // K and V keep step
  int64_t n_recent() const { return held().recent.n_tokens(); }
  void encode_all();

  const RequantizedFormat& format_;
  RequantizedTokens k_, v_;
  bool due_ = false;
};

}  // namespace kvc
