#include "generate/reconstruction.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

namespace kvc {
namespace {

TEST(Reconstruction, IsZeroForWhatComesBackAsItWas) {
  const auto x = at::randn({2, 5, 4});
  Reconstruction reconstruction;
  reconstruction.add({x, x}, at::arange(5).expand({2, 5}), {x, x});
  EXPECT_EQ(reconstruction.k_error(), 0);
  EXPECT_EQ(reconstruction.v_error(), 0);
}

TEST(Reconstruction, OfXScaledByHalfIsAHalf) {
  const auto x = at::randn({2, 5, 4});
  Reconstruction reconstruction;
  reconstruction.add({x / 2, x}, at::arange(5).expand({2, 5}), {x, x});
  EXPECT_NEAR(reconstruction.k_error(), 0.5, 1e-7);
  EXPECT_EQ(reconstruction.v_error(), 0);
}

// Four tokens of equal norm, one of them gone in each head (another one each): a quarter of the squares is missing.
TEST(Reconstruction, CountsEvictedTokensAsZeros) {
  const auto x = at::ones({2, 4, 3});
  const auto kept = at::ones({2, 3, 3});
  const auto positions = at::tensor({0, 2, 3, 1, 2, 3}, at::kLong).view({2, 3});
  Reconstruction reconstruction;
  reconstruction.add({kept, kept}, positions, {x, x});
  EXPECT_NEAR(reconstruction.k_error(), std::sqrt(0.25), 1e-7);
}

// Head 0 keeps all tokens, head 1 the first and the last, which stands in the second row.
TEST(Reconstruction, TakesAHeadThatKeepsFewerBesideOneThatKeepsAll) {
  const auto x = at::arange(24, at::kFloat).view({2, 4, 3});
  auto kept = x.clone();
  kept[1][1].copy_(x[1][3]);
  kept[1].narrow(0, 2, 2).zero_();
  const auto positions = at::tensor({0, 1, 2, 3, 0, 3, -1, -1}, at::kLong).view({2, 4});
  Reconstruction reconstruction;
  reconstruction.add({kept, kept}, positions, {x, x});
  const double missing = x[1].narrow(0, 1, 2).square().sum().item<double>();
  EXPECT_NEAR(reconstruction.k_error(), std::sqrt(missing / x.square().sum().item<double>()), 1e-7);
}

TEST(Reconstruction, TakesHeadsThatKeepFewerThanOthers) {
  const auto x = at::ones({2, 4, 3});
  const auto kept = at::ones({2, 2, 3});
  const auto positions = at::tensor({0, 3, 3, -1}, at::kLong).view({2, 2});  // head 1 keeps one token
  Reconstruction reconstruction;
  reconstruction.add({kept, kept}, positions, {x, x});
  EXPECT_NEAR(reconstruction.k_error(), std::sqrt(5.0 / 8.0), 1e-7);
}

}  // namespace
}  // namespace kvc
