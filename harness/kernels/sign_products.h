// Inner products with packed signs on raw pointers; no LibTorch.
#pragma once

#include <cstdint>

namespace kvc::kernels {

// sums[row] = sum_j (bit j of the row ? x[j] : -x[j]), in 16 lanes that are added by halves.
// x [32 * n_words], words [n_rows, n_words], bit j of word w standing for entry 32 w + j
void dot_signs(const float* x, int64_t n_words, const int32_t* words, int64_t n_rows, float* sums);

}  // namespace kvc::kernels
