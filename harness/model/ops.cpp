#include "model/ops.h"

#include <ATen/ATen.h>

#include <cmath>
#include <vector>

#include "kvc/check.h"

namespace kvc {
namespace {

// Runs body(T*) with T the C++ type of `dtype`; body takes a typed null pointer.
template <class Body>
void for_dtype(at::ScalarType dtype, const Body& body) {
  switch (dtype) {
    case at::kFloat:
      return body(static_cast<float*>(nullptr));
    case at::kHalf:
      return body(static_cast<at::Half*>(nullptr));
    case at::kBFloat16:
      return body(static_cast<at::BFloat16*>(nullptr));
    default:
      throw Error(concat("model: type ", at::toString(dtype), ", supported: Float, Half, BFloat16"));
  }
}

}  // namespace

// LibTorch's operators in the order of the reference implementation (fp32, then the model's type, then the weight): a
// sum in another order is as right, but a model with sharp attention makes 1e-4 of its last bit.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  const auto wide = x.to(at::kFloat);
  const auto inverse = wide.square().mean(-1, true).add_(eps).rsqrt_();  // [rows, 1]
  return (weight * (wide * inverse).to(x.scalar_type())).to(x.scalar_type());
}

at::Tensor linear_rows(const at::Tensor& x, const at::Tensor& w) {
  const int64_t n_rows = x.size(0);
  KVC_CHECK(n_rows == 1 || n_rows == kRowBucket, "linear_rows: ", n_rows, " rows, expected 1 or ", kRowBucket);
  if (n_rows == 1) return at::mv(w, x[0]).unsqueeze(0);
  return at::mm(x, w.t());
}

RopeTable rope_table(int64_t first_position, int64_t n_positions, int64_t head_dim, double theta) {
  const int64_t half = head_dim / 2;
  std::vector<float> inverse_frequency(static_cast<size_t>(half));
  for (int64_t i = 0; i < half; ++i) {
    const float power = static_cast<float>(std::pow(theta, static_cast<double>(2 * i) / static_cast<double>(head_dim)));
    inverse_frequency[static_cast<size_t>(i)] = 1.0f / power;
  }
  RopeTable table{at::empty({n_positions, half}, at::kFloat), at::empty({n_positions, half}, at::kFloat)};
  float* cos = table.cos.mutable_data_ptr<float>();
  float* sin = table.sin.mutable_data_ptr<float>();
  for (int64_t t = 0; t < n_positions; ++t) {
    for (int64_t i = 0; i < half; ++i) {
      const float angle = static_cast<float>(first_position + t) * inverse_frequency[static_cast<size_t>(i)];
      cos[t * half + i] = std::cos(angle);
      sin[t * half + i] = std::sin(angle);
    }
  }
  return table;
}

void split_heads_(const at::Tensor& merged, int64_t first_head, const RopeTable* rope, int64_t first_token,
                  at::Tensor& out) {
  const int64_t n_tokens = merged.size(0), width = merged.size(1);
  const int64_t n_heads = out.size(0), n_out_tokens = out.size(1), head_dim = out.size(2), half = head_dim / 2;
  const float* cos = rope ? rope->cos.const_data_ptr<float>() : nullptr;
  const float* sin = rope ? rope->sin.const_data_ptr<float>() : nullptr;
  for_dtype(merged.scalar_type(), [&]<class T>(T*) {
    const T* in = merged.const_data_ptr<T>();
    T* result = out.mutable_data_ptr<T>();
    for (int64_t t = 0; t < n_tokens; ++t) {
      for (int64_t h = 0; h < n_heads; ++h) {
        const T* from = in + t * width + (first_head + h) * head_dim;
        T* to = result + (h * n_out_tokens + first_token + t) * head_dim;
        if (!rope) {
          std::copy(from, from + head_dim, to);
          continue;
        }
        for (int64_t i = 0; i < half; ++i) {
          const float a = from[i], b = from[i + half], c = cos[t * half + i], s = sin[t * half + i];
          to[i] = static_cast<T>(a * c - b * s);
          to[i + half] = static_cast<T>(b * c + a * s);
        }
      }
    }
  });
}

at::Tensor silu_times(const at::Tensor& gate_up) {
  const auto halves = gate_up.chunk(2, 1);
  return at::silu(halves[0]).mul_(halves[1]);
}

}  // namespace kvc
