#include "kernels/sign_products.h"

#include <algorithm>

#include "kernels/lanes.h"

namespace kvc::kernels {
namespace {

constexpr int64_t kRowsAtOnce = 4;

// Bit l of a word, and of its upper half.
constexpr Ints kLow = {1 << 0, 1 << 1, 1 << 2,  1 << 3,  1 << 4,  1 << 5,  1 << 6,  1 << 7,
                       1 << 8, 1 << 9, 1 << 10, 1 << 11, 1 << 12, 1 << 13, 1 << 14, 1 << 15};
constexpr Ints kHigh = kLow << 16;

KVC_INLINE Floats add_where(Ints word, Ints bits, Floats x, Floats sum) { return (word & bits) != 0 ? sum + x : sum; }

template <int64_t kRows>
KVC_INLINE void dot_rows(const float* x, float x_total, int64_t n_words, const int32_t* rows, float* sums) {
  Floats low[kRows] = {}, high[kRows] = {};
  for (int64_t w = 0; w < n_words; ++w) {
    const auto x_low = load<Floats>(x + 32 * w), x_high = load<Floats>(x + 32 * w + kLanes);
    for (int64_t r = 0; r < kRows; ++r) {
      const Ints word = rows[r * n_words + w] - Ints{};
      low[r] = add_where(word, kLow, x_low, low[r]);
      high[r] = add_where(word, kHigh, x_high, high[r]);
    }
  }
  for (int64_t r = 0; r < kRows; ++r) sums[r] = 2 * total(low[r] + high[r]) - x_total;
}

}  // namespace

KVC_CLONES void dot_signs(const float* x, int64_t n_words, const int32_t* rows, int64_t n_rows, float* sums) {
  Floats all = {};
  for (int64_t i = 0; i < 2 * n_words; ++i) all += load<Floats>(x + kLanes * i);
  const float x_total = total(all);
  int64_t row = 0;
  for (; row + kRowsAtOnce <= n_rows; row += kRowsAtOnce) {
    dot_rows<kRowsAtOnce>(x, x_total, n_words, rows + row * n_words, sums + row);
  }
  for (; row < n_rows; ++row) dot_rows<1>(x, x_total, n_words, rows + row * n_words, sums + row);
}

KVC_CLONES void mix_chosen_rows(const float* x, const uint8_t* rows, int64_t n_rows, const float* w, int64_t stride,
                                int64_t dim, float* y) {
  for (int64_t j = 0; j < dim; j += 2 * kLanes) {
    Floats low = {}, high = {};
    for (int64_t i = 0; i < n_rows; ++i) {
      const float* row = w + rows[i] * stride + j;
      low += x[rows[i]] * load<Floats>(row);
      high += x[rows[i]] * load<Floats>(row + kLanes);
    }
    store(low, y + j);
    store(high, y + j + kLanes);
  }
}

KVC_CLONES void add_scaled_by_halves(const uint16_t* halves, double factor, const float* x, int64_t n, float* y) {
  const auto f = static_cast<float>(factor);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    store(load<Floats>(y + i) + f * half_values(load<Shorts>(halves + i)) * load<Floats>(x + i), y + i);
  }
  for (; i < n; ++i) y[i] += f * half_value(halves[i]) * x[i];
}

}  // namespace kvc::kernels
