#include "kernels/sign_products.h"

#include "kernels/lanes.h"

namespace kvc::kernels {
namespace {

using Pair = Sixteen<float>;  // sixteen in one vector go through memory where the machine has registers of eight
using Eight = Pair::Half;
using EightInts = Sixteen<int32_t>::Half;

// Shifts that put bits 8 b ... 8 b + 7 of a word where the sign is.
template <int b>
constexpr EightInts kToSign = EightInts{31, 30, 29, 28, 27, 26, 25, 24} - 8 * b;

// A choice (?:) between vectors would be made lane by lane, with jumps.
KVC_INLINE Eight add_where(EightInts word, EightInts shifts, Eight x, Eight sum) {
  return sum + (Eight)((EightInts)x & ((word << shifts) >> 31));
}

// 2 sum_j (bit j ? x[j] : 0)
KVC_INLINE float dot_row(const float* x, int64_t n_words, const int32_t* row) {
  Eight sum[4] = {};
  for (int64_t w = 0; w < n_words; ++w) {
    const EightInts word = row[w] - EightInts{};
    const float* part = x + 32 * w;
    sum[0] = add_where(word, kToSign<0>, load<Eight>(part), sum[0]);
    sum[1] = add_where(word, kToSign<1>, load<Eight>(part + 8), sum[1]);
    sum[2] = add_where(word, kToSign<2>, load<Eight>(part + 16), sum[2]);
    sum[3] = add_where(word, kToSign<3>, load<Eight>(part + 24), sum[3]);
  }
  return 2 * total(Pair(sum[0] + sum[2], sum[1] + sum[3]));
}

}  // namespace

KVC_CLONES void dot_signs(const float* x, int64_t n_words, const int32_t* rows, int64_t n_rows, float* sums) {
  Pair all = {};
  for (int64_t i = 0; i < 2 * n_words; ++i) all += load<Pair>(x + kLanes * i);
  const float x_total = total(all);
  for (int64_t row = 0; row < n_rows; ++row) sums[row] = dot_row(x, n_words, rows + row * n_words) - x_total;
}

KVC_CLONES void mix_chosen_rows(const float* x, const uint8_t* rows, int64_t n_rows, const float* w, int64_t stride,
                                int64_t dim, float* y) {
  for (int64_t j = 0; j < dim; j += 2 * kLanes) {
    Pair low = {}, high = {};
    for (int64_t i = 0; i < n_rows; ++i) {
      const float* row = w + rows[i] * stride + j;
      low += x[rows[i]] * load<Pair>(row);
      high += x[rows[i]] * load<Pair>(row + kLanes);
    }
    store(low, y + j);
    store(high, y + j + kLanes);
  }
}

KVC_CLONES void add_scaled_by_halves(const uint16_t* halves, double factor, const float* x, int64_t n, float* y) {
  const auto f = static_cast<float>(factor);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    store(load<Pair>(y + i) + f * half_values(load<Sixteen<uint16_t>>(halves + i)) * load<Pair>(x + i), y + i);
  }
  for (; i < n; ++i) y[i] += f * half_value(halves[i]) * x[i];
}

}  // namespace kvc::kernels
