// Tokens of one head as floats, some at a time, so that a pass over a prompt keeps what it reads in the processor's
// cache.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "kernels/code_products.h"

namespace kvc {

template <class T>
T* grown(std::vector<T>& held, int64_t n) {
  if (static_cast<int64_t>(held.size()) < n) held.resize(static_cast<size_t>(n));
  return held.data();
}

class HeadRows {
 public:
  explicit HeadRows(const at::Tensor& x) : x_(with_whole_tokens(x)) {}  // [H, T, D] of any float type, on the CPU

  int64_t size(int64_t dim) const { return x_.size(dim); }

  // Tokens [first, first + n) of a head, `stride` floats apart; held: where they go that are no floats.
  const float* read(int64_t head, int64_t first, int64_t n, std::vector<float>& held, int64_t& stride) const {
    const int64_t at = head * x_.stride(0) + first * x_.stride(1), d = x_.size(2);
    stride = x_.stride(1);
    if (x_.scalar_type() == at::kFloat) return x_.const_data_ptr<float>() + at;
    float* out = grown(held, n * d);
    for (int64_t t = 0; t < n; ++t) {
      const int64_t from = at + t * stride;
      if (x_.scalar_type() == at::kHalf) {
        kernels::to_float(reinterpret_cast<const uint16_t*>(x_.const_data_ptr<at::Half>()) + from, d, out + t * d);
      } else {
        const at::BFloat16* row = x_.const_data_ptr<at::BFloat16>() + from;
        for (int64_t j = 0; j < d; ++j) out[t * d + j] = static_cast<float>(row[j]);
      }
    }
    stride = d;
    return out;
  }

 private:
  static at::Tensor with_whole_tokens(const at::Tensor& x) {
    const auto type = x.scalar_type();
    const bool known = type == at::kFloat || type == at::kHalf || type == at::kBFloat16;
    const auto floats = known ? x : x.to(at::kFloat);
    return floats.stride(2) == 1 ? floats : floats.contiguous();
  }

  at::Tensor x_;
};

}  // namespace kvc
