// Exact causal attention of a prompt's queries, a bucket of them at a time.
// Idea: keys stand in panels of some tokens, [D, tokens], so that scores are sums in lanes as the outputs are and no
// vector is added up. They are laid out once for all buckets and queries of a layer.
// Per key and query 2 D multiply-adds; keys and values of 16 bits become floats once.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "kvc/layer_cache.h"

namespace kvc {

class PrefillAttention {
 public:
  // k, v [H_kv, T, D], of one type, contiguous. Of info: window, softcap, attention sinks and scale.
  PrefillAttention(const at::Tensor& k, const at::Tensor& v, const LayerInfo& info);

  // Queries at rows row ... row + kRowBucket - 1 of q, whose positions begin at `first`, over the keys up to their own.
  // q [H_q, T_q, D] contiguous -> [kRowBucket, H_q*D] fp32
  at::Tensor attend(const at::Tensor& q, int64_t row, int64_t first) const;

  // Whether attend_all() serves a model of this type on this device: fp16 and bf16 on a GPU, without sliding window,
  // softcap and sinks. It is LibTorch's scaled_dot_product_attention, many times faster than buckets; its bits may depend
  // on how many tokens there are.
  bool has_all() const;
  // All queries at once, whose positions begin at `first`. q [H_q, T_q, D] -> [T_q, H_q*D] of the model's type
  at::Tensor attend_all(const at::Tensor& q, int64_t first) const;

 private:
  LayerInfo info_;
  at::Tensor panels_;  // [H_kv, panels, D, kRowBucket] fp32, zeros behind the last token; on a GPU k
  at::Tensor v_;       // [H_kv, T, D] fp32; on a GPU v
};

namespace portable {
// The same by LibTorch's operators: what runs on a GPU, and what the CPU's loops are held against.
at::Tensor attend_bucket(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, int64_t row, int64_t first,
                         const LayerInfo& info);
}  // namespace portable

}  // namespace kvc
