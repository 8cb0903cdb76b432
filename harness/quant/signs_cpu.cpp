#include "signs_cpu.h"

#include <cstring>

#define KVC_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))

namespace kvc::kernels {
namespace {

typedef float Floats __attribute__((vector_size(64)));
typedef int32_t Ints __attribute__((vector_size(64)));

// The left shift that takes bit l of a word (or, of its upper half, bit 16 + l) to the sign of lane l.
constexpr Ints kLow = {31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17, 16};
constexpr Ints kHigh = {15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0};

inline __attribute__((always_inline)) Ints lanes(const float* x) {
  Ints v;
  std::memcpy(&v, x, sizeof(v));
  return v;
}

}  // namespace

// The sign is flipped where the bit is not set.
KVC_CLONES void dot_signs(const float* x, int64_t n_words, const int32_t* words, int64_t n_rows, float* sums) {
  constexpr int32_t kSign = INT32_MIN;
  for (int64_t row = 0; row < n_rows; ++row, words += n_words) {
    Floats low = {}, high = {};
    for (int64_t w = 0; w < n_words; ++w) {
      const Ints word = words[w] - Ints{};
      low += (Floats)(lanes(x + 32 * w) ^ ~(word << kLow) & kSign);
      high += (Floats)(lanes(x + 32 * w + 16) ^ ~(word << kHigh) & kSign);
    }
    low += high;
    for (int half = 8; half > 0; half /= 2) {
      for (int l = 0; l < half; ++l) low[l] += low[l + half];
    }
    sums[row] = low[0];
  }
}

}  // namespace kvc::kernels
