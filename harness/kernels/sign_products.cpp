#include "kernels/sign_products.h"

#include "kernels/lanes.h"

namespace kvc::kernels {
namespace {

// The left shift that takes bit l of a word (or, of its upper half, bit 16 + l) to the sign of lane l.
constexpr Ints kLow = {31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17, 16};
constexpr Ints kHigh = {15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0};

}  // namespace

// The sign is flipped where the bit is not set.
KVC_CLONES void dot_signs(const float* x, int64_t n_words, const int32_t* rows, int64_t n_rows, float* sums) {
  constexpr int32_t kSign = INT32_MIN;
  for (int64_t row = 0; row < n_rows; ++row, rows += n_words) {
    Floats low = {}, high = {};
    for (int64_t w = 0; w < n_words; ++w) {
      const Ints word = rows[w] - Ints{};
      low += (Floats)(words(x + 32 * w) ^ (~(word << kLow) & kSign));
      high += (Floats)(words(x + 32 * w + 16) ^ (~(word << kHigh) & kSign));
    }
    sums[row] = total(low + high);
  }
}

}  // namespace kvc::kernels
