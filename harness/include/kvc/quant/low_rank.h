// GEAR's SVDSolver: a rank-r approximation L = A B^T of each head's [n, d] matrix by power iteration.
//   P = P0;  repeat `loops` times: (last: P = qr(P).Q)  Q = X P  (last: Q = qr(Q).Q)  P = X^T Q;   A = Q, B = P
// A has orthonormal columns and L = A A^T X is an orthogonal projection of X, so the norm of the error does not grow.
// Source: GEAR, algorithm 2 and its public code (P0 uniform in [0, 1), no QR in the middle iterations).
// Bytes: H * r * (n + d) * 2 (4 with Precision::exact); factors of 8 bits, with a scale and zero for each column of
// each head: H * r * (n + d + 8) (16 with Precision::exact).
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <cstdint>

#include "kvc/footprint.h"
#include "kvc/quant/precision.h"

namespace kvc {

struct KVC_EXPORT LowRank {
  at::Tensor a;                                 // [H, n, r]; undefined at rank 0
  at::Tensor b;                                 // [H, d, r]
  at::Tensor a_scale, a_zero, b_scale, b_zero;  // [H, 1, r], where a and b are codes of 8 bits

  at::Tensor a_floats() const;  // [H, n, r] fp32
  at::Tensor b_floats() const;
  at::Tensor product() const;  // [H, n, d] fp32
  void add_to(Footprint& bytes, CacheTensor tensor) const;
};

// x: [H, n, d] fp32, start: P0 [H, d, r] with r <= min(n, d), loops >= 1. Factors beyond fp16's range are clamped to
// it.
KVC_EXPORT LowRank low_rank_approximation(const at::Tensor& x, const at::Tensor& start, int64_t loops,
                                          Precision precision);

// The same with 8-bit factors: min-max quantization of each column of each head, as in quantize_groups.
KVC_EXPORT LowRank with_factors_of_8_bits(const LowRank& x, Precision precision);

// P0 [H, d, min(r, n, d)] for an [H, n, d] matrix; also draws the start of Q, which the public code draws and never
// uses.
KVC_EXPORT at::Tensor low_rank_start(at::Generator& generator, int64_t n_heads, int64_t n, int64_t d, int64_t rank);

}  // namespace kvc
