// Tokens transposed into channels.
#pragma once

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "kernels/quantize_groups.h"

namespace kvc {

// [H, T, D] -> [H, D, T], contiguous
inline at::Tensor by_channels(const at::Tensor& x) {
  if (!x.is_cpu() || x.scalar_type() != at::kFloat || !x.is_contiguous()) return x.transpose(1, 2).contiguous();
  const int64_t n_tokens = x.size(1), head_dim = x.size(2);
  auto out = at::empty({x.size(0), head_dim, n_tokens}, x.options());
  const float* from = x.const_data_ptr<float>();
  float* to = out.data_ptr<float>();
  at::parallel_for(0, x.size(0), 1, [&](int64_t begin, int64_t end) {
    for (int64_t h = begin; h < end; ++h) {
      kernels::transpose(from + h * n_tokens * head_dim, head_dim, n_tokens, head_dim, to + h * n_tokens * head_dim);
    }
  });
  return out;
}

}  // namespace kvc
