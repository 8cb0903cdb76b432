// Matrices as products of small tensors, in the gauge that gives each side of a bond the square root of its spectrum.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace decoquant {

// x = a b. a [m, r], b [r, n], r = min(m, n), fp64. Balanced: a = U sqrt(S), b = sqrt(S) V^T of the SVD.
struct Factors {
  at::Tensor a, b;
  at::Tensor spectrum;  // [r], falling; from 1e-8 of the largest on raised to that. Undefined after QR
};

// x: [m, n] fp64. Through the eigenvectors of the smaller Gram matrix, so that a b = x to rounding whatever the
// spectrum.
Factors balanced(const at::Tensor& x);

// Columns orthonormal in a, b upper triangular.
Factors qr_factors(const at::Tensor& x);

// b [r, c] of `first` as a chain of tensors [r, f_1, r_1], [r_1, f_2, r_2], ..., [r_k, f_n, 1] with full bonds, c the
// product of `factors`, each bond balanced.
std::vector<at::Tensor> chain(const Factors& first, const std::vector<int64_t>& factors);

// [r, c] fp32: the chain multiplied out.
at::Tensor multiplied(const std::vector<at::Tensor>& chain);

}  // namespace decoquant
