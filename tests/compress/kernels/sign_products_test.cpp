// Sketches' loops against the same sums in float64, one entry after the other.
#include "kernels/sign_products.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "kernels/lanes.h"
#include "machines.h"

namespace kvc::kernels {
namespace {

class SignProducts : public testing::Test {
 protected:
  std::vector<float> normal(int64_t n) {
    std::normal_distribution<float> draw;
    std::vector<float> x(static_cast<size_t>(n));
    for (auto& each : x) each = draw(generator_);
    return x;
  }
  int64_t from_1_to(int64_t n) { return 1 + static_cast<int64_t>(generator_() % static_cast<uint64_t>(n)); }

  std::mt19937_64 generator_{11};
};

TEST_F(SignProducts, AreSumsOfSignedEntriesWhateverTheNumberOfRows) {
  for (int i = 0; i < 500; ++i) {
    const int64_t n_words = from_1_to(20), n_rows = from_1_to(40);
    const auto x = normal(32 * n_words);
    std::vector<int32_t> words(static_cast<size_t>(n_rows * n_words));
    for (auto& word : words) word = static_cast<int32_t>(generator_());
    std::vector<float> sums(static_cast<size_t>(n_rows)), alone(1);
    const auto* loops = machines()[static_cast<size_t>(i) % machines().size()];
    loops->dot_signs(x.data(), n_words, words.data(), n_rows, sums.data());
    for (int64_t row = 0; row < n_rows; ++row) {
      double sum = 0, size = 0;
      for (int64_t j = 0; j < 32 * n_words; ++j) {
        const auto word = static_cast<uint32_t>(words[static_cast<size_t>(row * n_words + j / 32)]);
        const double entry = x[static_cast<size_t>(j)];
        sum += (word >> (j % 32) & 1) != 0 ? entry : -entry;
        size += std::abs(entry);
      }
      ASSERT_NEAR(sums[static_cast<size_t>(row)], sum, 1e-6 * size) << "row " << row << " of " << n_rows;
      loops->dot_signs(x.data(), n_words, words.data() + row * n_words, 1, alone.data());
      ASSERT_EQ(alone[0], sums[static_cast<size_t>(row)]) << "a row's bits depend on its neighbours";
    }
  }
}

TEST_F(SignProducts, ChosenRowsOfAMatrixAreMixed) {
  for (int i = 0; i < 200; ++i) {
    const int64_t d = from_1_to(256), dim = 32 * from_1_to(16), stride = dim + 32 * (from_1_to(3) - 1);
    const auto x = normal(d), w = normal(d * stride);
    std::vector<uint8_t> rows(static_cast<size_t>(from_1_to(12)));
    for (auto& row : rows) row = static_cast<uint8_t>(generator_() % static_cast<uint64_t>(d));
    std::vector<float> y(static_cast<size_t>(dim), 7.f);  // what was there is gone
    mix_chosen_rows(x.data(), rows.data(), static_cast<int64_t>(rows.size()), w.data(), stride, dim, y.data());
    for (int64_t j = 0; j < dim; ++j) {
      double sum = 0, size = 0;
      for (const auto row : rows) {
        const double product = static_cast<double>(x[row]) * w[static_cast<size_t>(row * stride + j)];
        sum += product;
        size += std::abs(product);
      }
      ASSERT_NEAR(y[static_cast<size_t>(j)], sum, 1e-6 * size);
    }
  }
}

TEST_F(SignProducts, AreScaledByHalves) {
  for (const int64_t n : {1, 15, 16, 17, 32, 100}) {
    const auto x = normal(n);
    auto y = normal(n);
    const auto before = y;
    std::vector<uint16_t> halves(static_cast<size_t>(n));  // from the least subnormal number to 65504, and both zeros
    for (auto& half : halves) half = static_cast<uint16_t>(generator_() % 0x7c00 | (generator_() % 2) << 15);
    add_scaled_by_halves(halves.data(), 0.3, x.data(), n, y.data());
    for (size_t t = 0; t < x.size(); ++t) {
      const double product = 0.3 * static_cast<double>(half_value(halves[t])) * x[t];
      ASSERT_NEAR(y[t], before[t] + product, 1e-6 * (std::abs(before[t]) + std::abs(product))) << n << ", " << t;
    }
  }
}

}  // namespace
}  // namespace kvc::kernels
