// What KVarN does to a tile before it is quantized: in plain loops, and in operations of any device to the same bits.
// A line's numbers are added by halves (the second to the first, until one is left), and nothing that is done in
// between depends on the machine: all are sums, products, quotients and roots of float64, rounded as IEEE 754 says.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace kvarn {

// x [n, d], row after row, each row times the orthonormal Hadamard matrix, which is its own inverse. d: a power of two.
void rotate_rows(float* x, int64_t n, int64_t d);
at::Tensor rotated_on_device(const at::Tensor& x);  // [.., d] fp32

enum class Columns { tokens, channels };

// Which column factors make a tile's spread most even. The tile x [n_tokens, d], both powers of two, is divided by the
// standard deviations (unbiased, within [1e-3, 1e3]) of its columns, then of its rows, `rounds` times; the logarithm of
// a line's factor stays within [-0.3, 10]. Of all rounds, the untouched tile among them, the one of least
// imbalance counts:
//   imbalance = max/min of the columns' deviations + max/min of the rows';   of equals, the later.
// Returns the columns' factors; the rows' are what the quantizer's scales take up.
std::vector<double> column_factors(const float* x, int64_t n_tokens, int64_t d, Columns columns, int64_t rounds);

// The same of tiles [.., n_tokens, d] -> [.., n_tokens, 1] or [.., 1, d]. The host is asked nothing.
at::Tensor column_factors_on_device(const at::Tensor& x, Columns columns, int64_t rounds);

}  // namespace kvarn
