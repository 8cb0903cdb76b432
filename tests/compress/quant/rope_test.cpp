#include "kvc/quant/rope.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "support/message_of.h"

namespace kvc {
namespace {

const std::vector<float> kFrequencies = {1.0f, 0.31622776f, 0.01f};

// Six rotated channels of eight, in float64: (a + ib) e^(i angle).
TEST(Rope, TurnsPairsOfChannelsByTheirPositionsAngle) {
  at::manual_seed(1);
  const auto x = at::randn({2, 5, 8});
  const auto y = turned(x, 1000, kFrequencies, 1);
  for (int64_t h = 0; h < 2; ++h) {
    for (int64_t t = 0; t < 5; ++t) {
      const auto from = x[h][t].to(at::kDouble), to = y[h][t].to(at::kDouble);
      for (int64_t i = 0; i < 3; ++i) {
        const double angle = static_cast<double>(1000 + t) * kFrequencies[static_cast<size_t>(i)];
        const double a = from[i].item<double>(), b = from[i + 3].item<double>();
        EXPECT_NEAR(to[i].item<double>(), a * std::cos(angle) - b * std::sin(angle), 1e-6);
        EXPECT_NEAR(to[i + 3].item<double>(), a * std::sin(angle) + b * std::cos(angle), 1e-6);
      }
      EXPECT_TRUE(at::equal(x[h][t].narrow(0, 6, 2), y[h][t].narrow(0, 6, 2)));  // those without RoPE
    }
  }
}

TEST(Rope, IsUndoneAndTheSameInPlace) {
  at::manual_seed(2);
  const auto x = at::randn({3, 700, 8});
  const auto y = turned(x, 30'000, kFrequencies, 1);
  EXPECT_LT((turned(y, 30'000, kFrequencies, -1) - x).abs().max().item<float>(), 2e-6f);
  const auto in_place = x.clone();
  turn(in_place, 30'000, kFrequencies);
  EXPECT_LT((in_place - y).abs().max().item<float>(), 2e-6f);
}

TEST(Rope, WithoutFrequenciesNothingTurnsAndTooManyAreRefused) {
  const auto x = at::randn({1, 2, 4});
  EXPECT_TRUE(at::equal(turned(x.to(at::kHalf), 7, {}, -1), x.to(at::kHalf).to(at::kFloat)));
  EXPECT_NE(test::message_of([&] { turned(x, 0, kFrequencies, 1); }).find("3 RoPE frequencies for head_dim 4"),
            std::string::npos);
}

}  // namespace
}  // namespace kvc
