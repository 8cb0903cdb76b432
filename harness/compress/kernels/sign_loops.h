// The loop of dot_signs, for one kind of machine; each KVC_MACHINE is a file with flags of its own.
// Idea: the sum of four entries with four signs has 16 possible values, which fill a vector; four bits of each of 16 rows
// look up theirs by one permutation.
#pragma once

#include <vector>

#include "kernels/machine_lanes.h"

namespace kvc::kernels::KVC_MACHINE {

// Entry i of 16: the sum of x[0, 4), x[j] with a minus where bit j of i is 0.
KVC_INLINE Floats signed_sums(const float* x) {
  const Floats first = {-1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1};
  const Floats second = {-1, -1, 1, 1, -1, -1, 1, 1, -1, -1, 1, 1, -1, -1, 1, 1};
  const Floats third = {-1, -1, -1, -1, 1, 1, 1, 1, -1, -1, -1, -1, 1, 1, 1, 1};
  const Floats fourth = {-1, -1, -1, -1, -1, -1, -1, -1, 1, 1, 1, 1, 1, 1, 1, 1};
  return (first * x[0] + second * x[1]) + (third * x[2] + fourth * x[3]);
}

// The sums of 16 * kVectors rows; n_words is a multiple of 4.
template <int kVectors>
KVC_INLINE void dot_sign_rows(const float* x, int64_t n_words, const int32_t* rows, float* sums) {
  for (int64_t i = 0; i < kVectors * kLanes * n_words; i += kLanes) __builtin_prefetch(rows + kAhead / 4 + i);
  Floats parts[kVectors][2] = {};
  for (int64_t first = 0; first < n_words; first += 4) {
    Ints signs[kVectors][4];
    for (int v = 0; v < kVectors; ++v) transposed_words(rows + v * kLanes * n_words + first, n_words, signs[v]);
#pragma GCC unroll 4
    for (int w = 0; w < 4; ++w) {
#pragma GCC unroll 8
      for (int k = 0; k < 8; ++k) {
        const Floats values = signed_sums(x + 32 * (first + w) + 4 * k);
#pragma GCC unroll 2
        for (int v = 0; v < kVectors; ++v) parts[v][k % 2] += pick(values, signs[v][w] >> 4 * k);
      }
    }
  }
  for (int v = 0; v < kVectors; ++v) store(parts[v][0] + parts[v][1], sums + v * kLanes);
}

// A copy of up to 16 rows and of x, padded with zeros to 16 rows and to a multiple of 4 words.
struct PaddedSigns {
  int64_t n_words;
  std::vector<float> x;
  std::vector<int32_t> rows;

  PaddedSigns(const float* from, int64_t n) : n_words((n + 3) / 4 * 4), x(static_cast<size_t>(32 * n_words)) {
    std::copy(from, from + 32 * n, x.begin());
  }
  void read(const int32_t* from, int64_t n, int64_t n_rows) {
    rows.assign(static_cast<size_t>(kLanes * n_words), 0);
    for (int64_t row = 0; row < n_rows; ++row) std::copy_n(from + row * n, n, rows.begin() + row * n_words);
  }
};

inline void dot_signs(const float* x, int64_t n_words, const int32_t* rows, int64_t n_rows, float* sums) {
  const int64_t n_whole = n_words % 4 == 0 ? n_rows / kLanes * kLanes : 0;
  int64_t row = 0;
  for (; row + 2 * kLanes <= n_whole; row += 2 * kLanes) dot_sign_rows<2>(x, n_words, rows + row * n_words, sums + row);
  for (; row < n_whole; row += kLanes) dot_sign_rows<1>(x, n_words, rows + row * n_words, sums + row);
  if (row == n_rows) return;
  PaddedSigns padded(x, n_words);
  for (; row < n_rows; row += kLanes) {
    const int64_t n = std::min(kLanes, n_rows - row);
    padded.read(rows + row * n_words, n_words, n);
    float some[kLanes];
    dot_sign_rows<1>(padded.x.data(), padded.n_words, padded.rows.data(), some);
    std::copy_n(some, n, sums + row);
  }
}

}  // namespace kvc::kernels::KVC_MACHINE
