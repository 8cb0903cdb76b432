// What a sketch of signs is scored with, on raw pointers; no LibTorch. Accumulation is fp32, one order for a row
// however many rows there are.
#pragma once

#include <cstdint>

namespace kvc::kernels {

// sums[row] = sum_j (bit j of the row ? x[j] : -x[j]). Three vector operations look up 64 bits; making the tables costs
// about as much again for every 32 rows.
// x [32 * n_words], words [n_rows, n_words], bit j of word w standing for entry 32 w + j
void dot_signs(const float* x, int64_t n_words, const int32_t* words, int64_t n_rows, float* sums);

// y[j] = sum_i x[rows[i]] w[rows[i], j], row after row; w [.., stride], y [dim], dim a multiple of 32
void mix_chosen_rows(const float* x, const uint8_t* rows, int64_t n_rows, const float* w, int64_t stride, int64_t dim,
                     float* y);

// y[i] += factor * halves[i] * x[i], of fp16 that are finite
void add_scaled_by_halves(const uint16_t* halves, double factor, const float* x, int64_t n, float* y);

}  // namespace kvc::kernels
