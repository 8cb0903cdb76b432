// Attention in two halves, with the softmax in between, so that a host can put other tokens next to a cache's under one
// softmax: exact sinks, recent tokens, another cache.
#pragma once

#include <ATen/core/Tensor.h>

#include "kvc/check.h"

namespace kvc {

// Optional interface, found by dynamic_cast on the LayerCache. T_kept and the order of tokens: as in positions().
class KVC_EXPORT SplitAttention {
 public:
  virtual ~SplitAttention();

  // q k^T * scale, before softcap, mask and softmax. q: [H_q, T_q, D] -> [H_q, T_q, T_kept] fp32
  virtual at::Tensor scores(const at::Tensor& q, double scale) const = 0;

  // Sum over the tokens of weight times value. weights: [H_q, T_q, T_kept] fp32 -> [H_q, T_q, D] fp32
  virtual at::Tensor mix(const at::Tensor& weights) const = 0;
};

}  // namespace kvc
