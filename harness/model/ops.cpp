#include "model/ops.h"

#include <ATen/ATen.h>

#include <cmath>

#include "kvc/check.h"
#include "model/rope.h"

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

// x, out: n values, which may be the same memory
template <class T>
void rms_norm_row(const T* x, const float* weight, int64_t n, double eps, T* out) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  const float inverse = static_cast<float>(1.0 / std::sqrt(sum / static_cast<double>(n) + eps));
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<T>(weight[i] * (static_cast<float>(x[i]) * inverse));
}

}  // namespace

// LibTorch's operators in the order of the reference implementation (fp32, then the model's type, then the weight): a
// sum in another order is as right, but a model with sharp attention makes 1e-4 of its last bit.
at::Tensor normalize(const at::Tensor& x, const Norm& norm, double eps) {
  const auto wide = x.to(at::kFloat);
  if (norm.bias.defined()) return at::layer_norm(wide, {x.size(1)}, norm.weight, norm.bias, eps).to(x.scalar_type());
  const auto inverse = wide.square().mean(-1, true).add_(eps).rsqrt_();  // [rows, 1]
  return (norm.weight * (wide * inverse).to(x.scalar_type())).to(x.scalar_type());
}

void normalize_heads_(at::Tensor& merged, int64_t first_head, int64_t n_heads, const at::Tensor& weight, double eps) {
  const int64_t n_tokens = merged.size(0), width = merged.size(1), head_dim = weight.size(0);
  for_dtype(merged.scalar_type(), [&]<class T>(T*) {
    T* rows = merged.mutable_data_ptr<T>();
    for (int64_t t = 0; t < n_tokens; ++t) {
      for (int64_t h = first_head; h < first_head + n_heads; ++h) {
        T* head = rows + t * width + h * head_dim;
        rms_norm_row(head, weight.const_data_ptr<float>(), head_dim, eps, head);
      }
    }
  });
}

at::Tensor linear_rows(const at::Tensor& x, const Linear& w) {
  const int64_t n_rows = x.size(0);
  KVC_CHECK(n_rows == 1 || n_rows == kRowBucket, "linear_rows: ", n_rows, " rows, expected 1 or ", kRowBucket);
  if (n_rows == 1) {
    return (w.bias.defined() ? at::addmv(w.bias, w.weight, x[0]) : at::mv(w.weight, x[0])).unsqueeze(0);
  }
  return w.bias.defined() ? at::addmm(w.bias, x, w.weight.t()) : at::mm(x, w.weight.t());
}

void split_heads_(const at::Tensor& merged, int64_t first_head, const RopeTable& rope, int64_t first_token,
                  at::Tensor& out) {
  const int64_t n_tokens = merged.size(0), width = merged.size(1);
  const int64_t n_heads = out.size(0), n_out_tokens = out.size(1), head_dim = out.size(2), half = head_dim / 2;
  const bool rotates = rope.cos.defined();
  const float* cos = rotates ? rope.cos.const_data_ptr<float>() : nullptr;
  const float* sin = rotates ? rope.sin.const_data_ptr<float>() : nullptr;
  for_dtype(merged.scalar_type(), [&]<class T>(T*) {
    const T* in = merged.const_data_ptr<T>();
    T* result = out.mutable_data_ptr<T>();
    for (int64_t t = 0; t < n_tokens; ++t) {
      for (int64_t h = 0; h < n_heads; ++h) {
        const T* from = in + t * width + (first_head + h) * head_dim;
        T* to = result + (h * n_out_tokens + first_token + t) * head_dim;
        if (!rotates) {
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
