// What KVarN does to a tile before it is quantized, in plain loops: the same bits with any number of threads.
#pragma once

#include <cstdint>
#include <vector>

namespace kvarn {

// x [n, d], row after row, each row times the orthonormal Hadamard matrix, which is its own inverse. d: a power of two.
void rotate_rows(float* x, int64_t n, int64_t d);

enum class Columns { tokens, channels };

// Which column factors make a tile's spread most even. The tile x [n_tokens, d] is divided by the standard deviations
// (unbiased, within [1e-3, 1e3]) of its columns, then of its rows, `rounds` times; the logarithm of a line's factor
// stays within [-0.3, 10]. Of all rounds, the untouched tile among them, the one of least imbalance counts:
//   imbalance = max/min of the columns' deviations + max/min of the rows';   of equals, the later.
// Returns the columns' factors; the rows' are what the quantizer's scales take up.
std::vector<double> column_factors(const float* x, int64_t n_tokens, int64_t d, Columns columns, int64_t rounds);

}  // namespace kvarn
