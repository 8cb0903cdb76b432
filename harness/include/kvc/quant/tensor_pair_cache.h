// A cache that stores K and V as two tensors with the same tokens. The author writes their type:
//   return std::make_unique<kvc::TensorPairCache<MyTensor>>(info, MyTensor(k_options), MyTensor(v_options));
#pragma once

#include <ATen/ops/cat.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "kvc/quant/parts_cache.h"

namespace kvc {

// K and V are types of one tensor, of all heads of one layer; movable:
//   void push_back(const at::Tensor& x);          // new tokens [H, t, D] of any float type
//   int64_t n_tokens() const, n_encoded() const;  // all stored tokens, and the compressed ones among them
//   at::Tensor dequantize() const;                // [H, T, D] fp32; undefined without tokens
//   void score(CompressedAttention&) const;       // only K, as PartsCache::read_k
//   void accumulate_v(CompressedAttention&) const;       // only V, as PartsCache::read_v
//   void add_to(Footprint&, CacheTensor) const;
// and, if the oldest tokens can be removed (DropsTokens):
//   int64_t droppable(int64_t n_tokens) const;
//   void drop_front(int64_t n_tokens);
template <class K, class V = K>
class TensorPairCache : public PartsCache, public DropsTokens {
 public:
  TensorPairCache(const LayerInfo& info, K k, V v) : PartsCache(info), k_(std::move(k)), v_(std::move(v)) {}

  void append(const NewTokens& tokens) final {
    check_new_tokens(tokens);
    if (info().holds_k()) k_.push_back(tokens.k);
    if (info().holds_v()) v_.push_back(tokens.v);
  }

  KeyValue dequantize() const final { return {k_.dequantize(), v_.dequantize()}; }
  int64_t length() const final { return info().holds_k() ? k_.n_tokens() : v_.n_tokens(); }
  int64_t n_encoded_tokens() const final { return std::max(n_encoded_k(), n_encoded_v()); }
  int64_t n_encoded_numbers() const final {
    return (n_encoded_k() + n_encoded_v()) * info().n_kv_heads * info().head_dim;
  }

  Footprint footprint() const final {
    Footprint bytes;
    k_.add_to(bytes, CacheTensor::k);
    v_.add_to(bytes, CacheTensor::v);
    return bytes;
  }

  int64_t droppable(int64_t n_tokens) const final {
    if constexpr (kDrops) {
      const int64_t of_k = info().holds_k() ? k_.droppable(n_tokens) : n_tokens;
      return info().holds_v() && v_.droppable(of_k) != of_k ? 0 : of_k;
    }
    return 0;
  }
  void drop_oldest(int64_t n_tokens) final {
    if constexpr (kDrops) {
      if (info().holds_k()) k_.drop_front(n_tokens);
      if (info().holds_v()) v_.drop_front(n_tokens);
    }
  }

 protected:
  void read_k(CompressedAttention& attention) const final { k_.score(attention); }
  void read_v(CompressedAttention& attention) const final { v_.accumulate_v(attention); }

  static constexpr bool kDrops = requires(K k, V v) { k.drop_front(1), v.drop_front(1); };

  K k_;  // empty if the cache does not store that tensor
  V v_;

 private:
  int64_t n_encoded_k() const { return info().holds_k() ? k_.n_encoded() : 0; }
  int64_t n_encoded_v() const { return info().holds_v() ? v_.n_encoded() : 0; }
};

// Such a type for methods that encode every token on arrival. Tokens has push_back, n_tokens, add_to, and
//   for_each_block(f): f(codes, index of their first token), from the first token on; LevelCodes or GroupCodes.
template <class Tokens>
class BlockwiseTensor : public Tokens {
 public:
  using Tokens::Tokens;

  int64_t n_encoded() const { return this->n_tokens(); }
  void score(CompressedAttention& attention) const {
    this->for_each_block([&](const auto& block, int64_t first) { attention.score(block, first); });
  }
  void accumulate_v(CompressedAttention& attention) const {
    this->for_each_block([&](const auto& block, int64_t first) { attention.accumulate_v(block, first); });
  }
  at::Tensor dequantize() const {
    std::vector<at::Tensor> blocks;
    this->for_each_block([&](const auto& block, int64_t) { blocks.push_back(block.dequantize()); });
    return blocks.empty() ? at::Tensor() : at::cat(blocks, 1);
  }
};

}  // namespace kvc
