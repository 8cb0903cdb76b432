// Codes whose channels are rotated by position, against the same scores in float64, one entry after the other.
#include "kernels/rotated_products.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "machines.h"

namespace kvc::kernels {
namespace {

class RotatedProducts : public testing::TestWithParam<const CodeLoops*> {
 protected:
  std::vector<float> floats(int64_t n) {
    std::vector<float> x(static_cast<size_t>(n));
    for (float& value : x) value = static_cast<float>(random_() % 2001) / 1000.f - 1.f;
    return x;
  }
  int64_t one_of(std::initializer_list<int64_t> values) { return values.begin()[random_() % values.size()]; }

  // One head: tokens in some calls that follow one another, held against fp64.
  void expect_scores_of(int64_t bits, int64_t d, int64_t n_q, const std::vector<int64_t>& calls, int64_t position);

  std::mt19937 random_{21};
};

struct Term {
  double sum = 0, size = 0;
};

void RotatedProducts::expect_scores_of(int64_t bits, int64_t d, int64_t n_q, const std::vector<int64_t>& calls,
                                       int64_t position) {
  const RotatedLayout layout(bits, d);
  const auto q = floats(n_q * d), scale = floats(d), zero = floats(d), levels = floats(1 << bits);
  std::vector<float> frequencies(static_cast<size_t>(d / 2)), packed_q(static_cast<size_t>(n_q * layout.n_packed * 32));
  for (size_t i = 0; i < frequencies.size(); ++i) {
    frequencies[i] = std::pow(1e4f, -2.f * static_cast<float>(i) / static_cast<float>(d));
  }
  const int64_t stride = layout.n_packed * 32;
  for (int64_t i = 0; i < n_q; ++i) {
    pack_query(layout, q.data() + i * d, scale.data(), zero.data(), packed_q.data() + i * stride);
  }
  RotationTables rotations(layout, frequencies, position);
  for (const int64_t n : calls) {
    std::vector<int32_t> words(static_cast<size_t>(n * layout.n_words));
    for (auto& word : words) word = static_cast<int32_t>(random_());
    const auto before = floats(n_q * n);
    auto scores = before;
    rotations.next(n);
    GetParam()->score_rotated_codes(layout, {words.data(), n, levels.data(), rotations.tiles(), rotations.steps()},
                                    {packed_q.data(), stride, n_q}, {scores.data(), n, n_q});
    for (int64_t t = 0; t < n; ++t) {
      std::vector<double> x(static_cast<size_t>(d)), size(x);
      for (int64_t j = 0; j < d; ++j) {
        const auto word = static_cast<uint32_t>(words[static_cast<size_t>(t * layout.n_words + j * bits / 32)]);
        const size_t code = word >> j * bits % 32 & ((1u << bits) - 1), c = static_cast<size_t>(j);
        x[c] = static_cast<double>(zero[c]) + static_cast<double>(scale[c]) * static_cast<double>(levels[code]);
        size[c] = std::abs(zero[c]) + std::abs(static_cast<double>(scale[c]) * static_cast<double>(levels[code]));
      }
      for (int64_t i = 0; i < n_q; ++i) {
        Term term{before[static_cast<size_t>(i * n + t)], 1};
        for (int64_t j = 0; j < d / 2; ++j) {
          const auto a = static_cast<size_t>(j), b = static_cast<size_t>(j + d / 2);
          const double angle = static_cast<double>(frequencies[a]) * static_cast<double>(position + t);
          const double q_a = q[static_cast<size_t>(i * d + j)], q_b = q[static_cast<size_t>(i * d + j + d / 2)];
          term.sum += q_a * (x[a] * std::cos(angle) - x[b] * std::sin(angle)) +
                      q_b * (x[b] * std::cos(angle) + x[a] * std::sin(angle));
          term.size += (std::abs(q_a) + std::abs(q_b)) * (size[a] + size[b]);
        }
        ASSERT_LE(std::abs(term.sum - scores[static_cast<size_t>(i * n + t)]), 1e-6 * term.size)
            << bits << " bits, " << d << " channels, query " << i << " of " << n_q << ", token " << t << " of " << n
            << " at " << position;
      }
    }
    position += n;
  }
}

TEST_P(RotatedProducts, AreThoseOfRotatedKeys) {
  for (int run = 0; run < 500 && !HasFatalFailure(); ++run) {
    const int64_t bits = one_of({2, 4}), d = one_of({16, 32, 48, 64, 80, 96, 128, 192, 256});
    std::vector<int64_t> calls;
    for (int64_t left = one_of({1, 2, 3}); left > 0; --left) {
      calls.push_back(random_() % 3 == 0 ? one_of({16, 64, 256}) : static_cast<int64_t>(random_() % 70) + 1);
    }
    expect_scores_of(bits, d, static_cast<int64_t>(random_() % 8) + 1, calls, one_of({0, 1, 5, 1000, 131072}));
  }
}

TEST_P(RotatedProducts, AreThoseOfRotatedKeysWhereAWordIsAWholeToken) { expect_scores_of(4, 8, 3, {1, 300, 16}, 7); }

// Angles are advanced from tile to tile; far behind the first they are as exact.
TEST_P(RotatedProducts, KeepTheirAnglesFarBehindTheFirstToken) { expect_scores_of(4, 128, 1, {20000, 64, 7, 3}, 1); }

INSTANTIATE_TEST_SUITE_P(CodeLoops, RotatedProducts, testing::ValuesIn(machines()),
                         [](const auto& info) { return machine_name(info.param); });

TEST(RotatedLayout, TakesEvenHeadsOfWholeWords) {
  EXPECT_TRUE(RotatedLayout::takes(4, 128) && RotatedLayout::takes(2, 64) && RotatedLayout::takes(4, 8));
  EXPECT_FALSE(RotatedLayout::takes(3, 128) || RotatedLayout::takes(4, 20) || RotatedLayout::takes(2, 24) ||
               RotatedLayout::takes(4, 2048));
}

}  // namespace
}  // namespace kvc::kernels
