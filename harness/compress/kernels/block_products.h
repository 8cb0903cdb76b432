// Products of a few rows with a matrix that is held in blocks.
#pragma once

#include "kernels/weight_blocks.h"

namespace kvc::kernels {

// y[m, n] += sum_k x[m, k] w[n, k] for n in [first, end), bit by bit as multiply_rows sums over the expanded rows.
// x [n_rows, k], k whole blocks; w: rows of k's blocks, one behind the other; y [n_rows, y_stride]
void multiply_blocks(BlockType type, const float* x, int64_t n_rows, int64_t k, const uint8_t* w, int64_t first,
                     int64_t end, float* y, int64_t y_stride);

}  // namespace kvc::kernels
