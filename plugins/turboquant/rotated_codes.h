// TurboQuant of vectors x of one head: a norm, and a code for each coordinate of the rotated direction
//   z = R^T x / |x|  (R [D, D]: orthogonal columns of length sqrt(D)),   x^ = |x|/D * R level[code]
// and, with a sketch, the signs and norm of what is left, r = x - x^:
//   x^ + sqrt(pi/2)/D * |r| * S sign(S^T r)  (S [D, D]: N(0, 1) entries), unbiased in <q, .> over S,
// which scores are computed from. It is farther from x than x^ is; nearest, for r of uniform direction, is
//   x^ + |r| * W sign(S^T r),  W as kvc::least_squares_of_signs derives it.
// Rows are computed one by one, so that a token's codes do not depend on those beside it. On the CPU.
#pragma once

#include <kvc/footprint.h>
#include <kvc/quant/precision.h>

#include <vector>

namespace turboquant {

// What all rows share; constants of the method.
struct Tables {
  at::Tensor rotation, sketch;         // R and S, fp32; sketch undefined without one
  std::vector<float> levels, middles;  // 2^b, and 2^b - 1 between them
  int64_t bits = 4;
};

class RotatedCodes {
 public:
  // x [H, t, D] fp32. Throws where a norm is beyond fp16.
  void push_back(const at::Tensor& x, const Tables& tables, kvc::Precision precision);
  at::Tensor dequantize(const Tables& tables) const;  // [H, T, D] fp32; undefined without tokens
  at::Tensor attended(const Tables& tables) const;    // the unbiased one
  int64_t n_tokens() const { return n_tokens_; }

  at::Tensor scores(const at::Tensor& q, const Tables& tables) const;         // q [H_q, D] -> q K^T [H_q, T]
  at::Tensor mixture(const at::Tensor& weights, const Tables& tables) const;  // [H_q, T] -> weights V [H_q, D]
  void add_to(kvc::Footprint& bytes, kvc::CacheTensor tensor) const;

 private:
  // x^, and of what is left `back` times the signs, as long as |r| says times `factor`.
  at::Tensor vectors(const Tables& tables, const at::Tensor& back, double factor) const;

  struct Block {
    at::Tensor codes, norms;           // [H, t, ceil(D*b/32)] int32, [H, t]
    at::Tensor signs, residual_norms;  // [H, t, ceil(D/32)] int32, [H, t]; undefined without a sketch
  };
  std::vector<Block> blocks_;
  int64_t n_tokens_ = 0;
};

}  // namespace turboquant
