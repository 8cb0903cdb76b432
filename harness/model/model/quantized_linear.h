// Symmetric round-to-nearest quantization of a layer's matrices and of what goes into them: a scale is the largest
// magnitude (at least 1e-5) over 2^(bits-1) - 1, a code round(x / scale), half to even.
#pragma once

#include <cstdint>

#include "checkpoint/quantization.h"
#include "model/ops.h"

namespace kvc {

// A matrix of floats as codes. bits: 8, 4, 3 or 2; group_size: columns that share a scale, 0 for the whole row.
// Throws Error where group_size does not divide K.
Linear quantized(const Linear& w, int64_t bits, int64_t group_size);
// Weights of `type` again where they are codes or blocks, else w itself.
Linear expanded(const Linear& w, at::ScalarType type);

// Rows first ... first+n-1 of codes on the CPU, or of blocks, as floats. out [n, K]
void expand_rows(const Linear& w, int64_t first, int64_t n, float* out);
// The same of blocks, by all threads. -> [n, K] of `type`
at::Tensor expanded_rows(const Linear& w, int64_t first, int64_t n, at::ScalarType type);

// Each row rounded to `bits` with a scale of its own, and floats of x's type again. x [T, K]
at::Tensor rounded_rows(const at::Tensor& x, int64_t bits);

}  // namespace kvc
