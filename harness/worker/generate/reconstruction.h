// How far what a cache gives back is from what it was given.
#pragma once

#include "kvc/layer_cache.h"

namespace kvc {

// Relative Frobenius error ||x - x^|| / ||x|| over all layers added, for K and V apart. Evicted tokens count as zeros.
class Reconstruction {
 public:
  // k, v: [H_kv, T, D], all that the cache was given.
  void add(const LayerCache& cache, const at::Tensor& k, const at::Tensor& v);
  double k_error() const;
  double v_error() const;

 private:
  double k_error_squares_ = 0, k_squares_ = 0, v_error_squares_ = 0, v_squares_ = 0;
};

}  // namespace kvc
