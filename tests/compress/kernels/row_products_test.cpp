// Products of rows against sums in double, term by term, at the edges of every tile; and that a row's bits are the
// same whatever is computed beside it.
#include "kernels/row_products.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <thread>
#include <vector>

namespace kvc::kernels {
namespace {

constexpr int64_t kRows = 9;  // two tiles of four and one
// Lanes, blocks of 16 to 64 weights, the 64 channels that are mixed at a time; one less and one more.
const std::vector<int64_t> kWidths = {1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 300};

std::vector<float> random_floats(int64_t n, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> x(static_cast<size_t>(n));
  for (auto& value : x) value = normal(random);
  return x;
}

double value_of(float w) { return w; }
double value_of(int8_t w) { return w; }
double value_of(Bf16 w) {
  const uint32_t bits = static_cast<uint32_t>(w.bits) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
double value_of(Fp16 w) {
  const int exponent = w.bits >> 10 & 31, fraction = w.bits & 1023;
  const double size = exponent ? std::ldexp(1024 + fraction, exponent - 25) : std::ldexp(fraction, -24);
  return w.bits >> 15 ? -size : size;
}

template <class W>
std::vector<W> random_weights(int64_t n, uint32_t seed);
template <>
std::vector<float> random_weights(int64_t n, uint32_t seed) {
  return random_floats(n, seed);
}
template <>
std::vector<Bf16> random_weights(int64_t n, uint32_t seed) {
  std::vector<Bf16> w;
  for (const float x : random_floats(n, seed)) {
    uint32_t bits;
    std::memcpy(&bits, &x, sizeof bits);
    w.push_back({static_cast<uint16_t>(bits >> 16)});
  }
  return w;
}
template <>
std::vector<Fp16> random_weights(int64_t n, uint32_t seed) {  // any finite one: subnormal, -0 and 65504 as well
  std::mt19937 random(seed);
  std::vector<Fp16> w;
  while (std::ssize(w) < n) {
    const auto bits = static_cast<uint16_t>(random());
    if ((bits >> 10 & 31) != 31) w.push_back({bits});
  }
  return w;
}
template <>
std::vector<int8_t> random_weights(int64_t n, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<int8_t> w;
  for (int64_t i = 0; i < n; ++i) w.push_back(static_cast<int8_t>(random()));
  return w;
}

// The distance that n_terms additions in float may make, of terms whose sizes add up to `size`.
double tolerance(int64_t n_terms, double size) {
  return static_cast<double>(n_terms + 4) * std::numeric_limits<float>::epsilon() * size;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

template <class W>
std::vector<float> interleaved(const std::vector<float>& x, int64_t n_rows, int64_t k) {
  const int64_t block = block_size<W>(), padded = (k + block - 1) / block * block;
  std::vector<float> out(static_cast<size_t>(n_rows * padded));
  for (int64_t r = 0; r < n_rows; ++r) interleave(x.data() + r * k, k, block, out.data() + r * padded);
  return out;
}

template <class W>
class RowProducts : public testing::Test {};
using Weights = testing::Types<float, Bf16, Fp16, int8_t>;
TYPED_TEST_SUITE(RowProducts, Weights);

TYPED_TEST(RowProducts, AreTheSumsAndTouchNoOtherColumn) {
  for (const int64_t k : kWidths) {
    for (int64_t n_columns = 1; n_columns <= 9; ++n_columns) {
      const auto x = random_floats(kRows * k, 1);
      const auto w = random_weights<TypeParam>(n_columns * k, 2);
      const int64_t first = n_columns / 3, end = n_columns - n_columns / 4, stride = n_columns + 2;
      const auto before = random_floats(kRows * stride, 3);
      auto y = before;
      multiply_rows(interleaved<TypeParam>(x, kRows, k).data(), kRows, k, w.data(), first, end, y.data(), stride);
      for (int64_t r = 0; r < kRows; ++r) {
        for (int64_t c = 0; c < stride; ++c) {
          const float was = before[static_cast<size_t>(r * stride + c)], is = y[static_cast<size_t>(r * stride + c)];
          if (c < first || c >= end) {
            ASSERT_EQ(is, was) << "k " << k << ", row " << r << ", column " << c;
            continue;
          }
          double sum = was, size = std::abs(was);
          for (int64_t i = 0; i < k; ++i) {
            const double term = x[static_cast<size_t>(r * k + i)] * value_of(w[static_cast<size_t>(c * k + i)]);
            sum += term, size += std::abs(term);
          }
          ASSERT_NEAR(is, sum, tolerance(k, size)) << "k " << k << ", row " << r << ", column " << c;
        }
      }
    }
  }
}

TYPED_TEST(RowProducts, OfARowHaveTheSameBitsInAnyCompanyAndOnAnyThread) {
  constexpr int64_t kColumns = 11;
  for (const int64_t k : kWidths) {
    const auto rows = interleaved<TypeParam>(random_floats(kRows * k, 1), kRows, k);
    const int64_t padded = std::ssize(rows) / kRows;
    const auto w = random_weights<TypeParam>(kColumns * k, 2);
    std::vector<float> together(kRows * kColumns), alone = together, threads = together;
    multiply_rows(rows.data(), kRows, k, w.data(), 0, kColumns, together.data(), kColumns);
    for (int64_t r = 0; r < kRows; ++r) {
      for (int64_t c = 0; c < kColumns; ++c) {
        multiply_rows(rows.data() + r * padded, 1, k, w.data(), c, c + 1, alone.data() + r * kColumns, kColumns);
      }
    }
    EXPECT_TRUE(same_bits(alone, together)) << k;
    for (int64_t n_rows = 2; n_rows < kRows; ++n_rows) {
      std::vector<float> some(together.size());
      multiply_rows(rows.data(), n_rows, k, w.data(), 0, kColumns, some.data(), kColumns);
      EXPECT_EQ(std::memcmp(some.data(), together.data(), static_cast<size_t>(n_rows * kColumns) * sizeof(float)), 0)
          << k << ", " << n_rows << " rows";
    }
    std::vector<std::thread> running;
    for (const auto& [first, end] : {std::pair<int64_t, int64_t>{0, 3}, {3, 8}, {8, kColumns}}) {
      running.emplace_back([&, first = first, end = end] {
        multiply_rows(rows.data(), kRows, k, w.data(), first, end, threads.data(), kColumns);
      });
    }
    for (auto& thread : running) thread.join();
    EXPECT_TRUE(same_bits(threads, together)) << k;
  }
}

template <class W>
class MixedRows : public testing::Test {};
using Values = testing::Types<float, Bf16, Fp16>;
TYPED_TEST_SUITE(MixedRows, Values);

TYPED_TEST(MixedRows, AreTheSumsWithTheSameBitsForOneRowAndForMany) {
  for (const int64_t dim : kWidths) {
    for (const int64_t n_tokens : {0, 1, 2, 7, 40}) {
      const int64_t x_stride = n_tokens + 3, y_stride = dim + 5;
      const auto x = random_floats(kRows * x_stride, 1), before = random_floats(kRows * y_stride, 3);
      const auto w = random_weights<TypeParam>(n_tokens * dim, 2);
      auto y = before, alone = before;
      mix_rows(x.data(), x_stride, kRows, w.data(), n_tokens, dim, y.data(), y_stride);
      for (int64_t r = 0; r < kRows; ++r) {
        mix_rows(x.data() + r * x_stride, x_stride, 1, w.data(), n_tokens, dim, alone.data() + r * y_stride, y_stride);
        for (int64_t j = 0; j < y_stride; ++j) {
          const auto at = static_cast<size_t>(r * y_stride + j);
          double sum = before[at], size = std::abs(sum);
          for (int64_t t = 0; j < dim && t < n_tokens; ++t) {
            const double term =
                x[static_cast<size_t>(r * x_stride + t)] * value_of(w[static_cast<size_t>(t * dim + j)]);
            sum += term, size += std::abs(term);
          }
          ASSERT_NEAR(y[at], sum, j < dim ? tolerance(n_tokens, size) : 0)
              << "dim " << dim << ", tokens " << n_tokens << ", row " << r << ", channel " << j;
        }
      }
      EXPECT_TRUE(same_bits(alone, y)) << "dim " << dim << ", tokens " << n_tokens;
    }
  }
}

TEST(Interleave, PutsEachStepsEntriesSideBySideAndZerosBehindTheLast) {
  for (const int64_t block : {16, 32, 64}) {
    for (const int64_t k : kWidths) {
      const auto x = random_floats(k, 1);
      const int64_t n_steps = block / 16, padded = (k + block - 1) / block * block;
      std::vector<float> out(static_cast<size_t>(padded), 7);
      interleave(x.data(), k, block, out.data());
      for (int64_t i = 0; i < padded; ++i) {  // lane l of step s is entry l * n_steps + s of its block
        const int64_t in = i % block, to = i - in + in % n_steps * 16 + in / n_steps;
        ASSERT_EQ(out[static_cast<size_t>(to)], i < k ? x[static_cast<size_t>(i)] : 0)
            << block << ", " << k << ", " << i;
      }
    }
  }
}

TEST(Softmax, IsTheQuotientOfExponentials) {
  for (const int64_t n : kWidths) {
    for (const float scale : {0.f, 1.f, 30.f, 1000.f}) {  // 1000: exponentials that vanish
      auto x = random_floats(n, 4);
      for (auto& value : x) value *= scale;
      double top = x[0], sum = 0, total = 0;
      for (const double value : x) top = std::max(top, value);
      for (const double value : x) sum += std::exp(value - top);
      auto y = x;
      softmax(y.data(), n);
      for (size_t i = 0; i < y.size(); ++i) {
        const double right = std::exp(x[i] - top) / sum, below = top - x[i];  // rounded to a float before exp
        EXPECT_NEAR(y[i], right, (1e-6 + 1e-7 * below) * right + 1e-37) << n << ", " << scale << ", " << i;
        total += y[i];
      }
      EXPECT_NEAR(total, 1, 1e-5);
    }
  }
}

// A sink far below all scores changes nothing, one far above takes everything; between, it is one more term of the sum.
TEST(Softmax, ASinkAddsItsExponentialToTheDenominatorAtAllLengths) {
  for (const int64_t n : {1, 5, 16, 17, 100}) {
    for (const float sink : {-200.f, -1.f, 0.f, 3.f, 200.f}) {
      const auto x = random_floats(n, 4);
      double top = sink, sum = 0;
      for (const double value : x) top = std::max(top, value);
      for (const double value : x) sum += std::exp(value - top);
      auto y = x;
      softmax(y.data(), n, &sink);
      for (size_t i = 0; i < y.size(); ++i) {
        const double right = std::exp(x[i] - top) / (sum + std::exp(sink - top));
        EXPECT_NEAR(y[i], right, 1e-5 * right + 1e-7) << n << ", " << sink << ", " << i;
      }
    }
  }
}

TEST(SumOfSquares, IsOfTheDifferenceOrOfTheRowItself) {
  for (int64_t n = 0; n <= 33; ++n) {
    const auto x = random_floats(n, 5), y = random_floats(n, 6);
    double of_x = 0, of_difference = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      of_x += static_cast<double>(x[i]) * x[i];
      const float difference = x[i] - y[i];
      of_difference += static_cast<double>(difference) * difference;
    }
    EXPECT_NEAR(sum_of_squares(x.data(), nullptr, n), of_x, 1e-13 * of_x);
    EXPECT_NEAR(sum_of_squares(x.data(), y.data(), n), of_difference, 1e-13 * of_difference);
  }
}

TEST(Silu, IsWithinAMillionthAndDoesNotDependOnThePlace) {
  std::vector<float> x = {-100, -87, -20, -1, -1e-6f, 0, 1e-6f, 1, 20, 88, 1e30f};
  for (const float value : random_floats(40, 7)) x.push_back(3 * value);
  auto y = x;
  silu(y.data(), std::ssize(y));
  for (size_t i = 0; i < x.size(); ++i) {
    if (x[i] >= -87) {
      const double right = x[i] / (1 + std::exp(-static_cast<double>(x[i])));
      EXPECT_NEAR(y[i], right, 1e-6 * std::abs(right)) << x[i];
    }
    float alone = x[i];
    silu(&alone, 1);
    EXPECT_TRUE(same_bits({alone}, {y[i]})) << x[i];
  }
}

}  // namespace
}  // namespace kvc::kernels
