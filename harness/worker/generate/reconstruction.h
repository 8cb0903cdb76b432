// How far what a cache gives back is from what it was given.
#pragma once

#include "kvc/layer_cache.h"

namespace kvc {

// Relative Frobenius error ||x - x^|| / ||x|| over all layers added, for K and V apart. Evicted tokens count as zeros.
class Reconstruction {
 public:
  // held: what a cache's dequantize() gives at its positions() [H_kv, T_kept]; given: all that it was given,
  // [H_kv, T, D] fp32.
  void add(KeyValue held, const at::Tensor& positions, const KeyValue& given);
  double k_error() const;
  double v_error() const;

 private:
  double k_error_squares_ = 0, k_squares_ = 0, v_error_squares_ = 0, v_squares_ = 0;
};

}  // namespace kvc
