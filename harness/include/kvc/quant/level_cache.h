// A cache that encodes every token on arrival, as codes of levels.
#pragma once

#include <ATen/ops/cat.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "kvc/quant/parts_cache.h"

namespace kvc {

// Tokens is K or V of all heads, constructed from `args`:
//   push_back(x [H, T, D]); n_tokens(); add_to(Footprint&, CacheTensor);
//   for_each_block(f): f(LevelCodes, index of its first token), from the first token on.
template <class Tokens>
class LevelCache final : public PartsCache {
 public:
  template <class... Args>
  explicit LevelCache(const LayerInfo& info, const Args&... args) : PartsCache(info), k_(args...), v_(args...) {}

  void append(const NewTokens& tokens) override {
    check_new_tokens(tokens);
    if (info().holds_k()) k_.push_back(tokens.k);
    if (info().holds_v()) v_.push_back(tokens.v);
  }

  KeyValue dequantize() const override { return {whole(k_), whole(v_)}; }
  int64_t length() const override { return std::max(k_.n_tokens(), v_.n_tokens()); }
  int64_t n_encoded_tokens() const override { return length(); }

  Footprint footprint() const override {
    Footprint bytes;
    k_.add_to(bytes, CacheTensor::k);
    v_.add_to(bytes, CacheTensor::v);
    return bytes;
  }

 private:
  void read_k(CompressedAttention& attention) const override {
    k_.for_each_block([&](const LevelCodes& block, int64_t first) { attention.score(block, first); });
  }
  void read_v(CompressedAttention& attention) const override {
    v_.for_each_block([&](const LevelCodes& block, int64_t first) { attention.weigh(block, first); });
  }
  static at::Tensor whole(const Tokens& tokens) {
    std::vector<at::Tensor> blocks;
    tokens.for_each_block([&](const LevelCodes& block, int64_t) { blocks.push_back(block.dequantize()); });
    return blocks.empty() ? at::Tensor() : at::cat(blocks, 1);
  }

  Tokens k_, v_;
};

}  // namespace kvc
