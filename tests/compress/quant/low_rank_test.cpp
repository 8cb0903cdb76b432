#include "kvc/quant/low_rank.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "kvc/quant/keyed_generator.h"

namespace kvc {
namespace {

at::Tensor matrices() {  // [3, 50, 32]
  at::manual_seed(5);
  return at::randn({3, 50, 32});
}

LowRank approximated(const at::Tensor& x, int64_t rank, int64_t loops = 3) {
  auto generator = keyed_generator(1, 0, 0, 0);
  return low_rank_approximation(x, low_rank_start(generator, x.size(0), x.size(1), x.size(2), rank), loops,
                                Precision::exact);
}

TEST(LowRank, IsAnOrthogonalProjection) {
  const auto x = matrices();
  const auto l = approximated(x, 4);
  const auto left = x - l.product();
  // ||X - L||^2 = ||X||^2 - ||B||^2 and A^T (X - L) = 0
  EXPECT_NEAR(left.square().sum().item<double>(), (x.square().sum() - l.b.square().sum()).item<double>(), 1e-2);
  EXPECT_LT(at::matmul(l.a.transpose(1, 2), left).abs().max().item<double>(), 1e-4);
}

// Half a step of each factor's column at most, times what the other factor holds; a byte a number.
TEST(LowRank, FactorsOfEightBitsAreNearAndAThirdOfTheBytes) {
  const auto l = approximated(matrices(), 4);
  const auto held = with_factors_of_8_bits(l, Precision::exact);
  const auto step = [](const at::Tensor& x) { return (x.amax(1, true) - x.amin(1, true)) / 255; };
  EXPECT_TRUE(((held.a_floats() - l.a).abs() <= 0.501 * step(l.a)).all().item<bool>());
  EXPECT_TRUE(((held.b_floats() - l.b).abs() <= 0.501 * step(l.b)).all().item<bool>());
  Footprint bytes;
  held.add_to(bytes, CacheTensor::k);
  EXPECT_EQ(bytes.total_bytes(), 3 * 4 * (50 + 32 + 16));
}

TEST(LowRank, FullRankGivesTheMatrixBack) {
  const auto x = matrices();
  EXPECT_LT((approximated(x, 32).product() - x).abs().max().item<double>(), 1e-3);
}

TEST(LowRank, MoreLoopsApproachTheBestApproximation) {
  const auto x = matrices();
  const auto singular = std::get<1>(at::linalg_svd(x, false));  // [3, 32]
  const double best = singular.narrow(1, 4, 28).square().sum().sqrt().item<double>();
  double last = 1e9;
  for (const int64_t loops : {1, 3, 8, 40}) {
    const double error = (x - approximated(x, 4, loops).product()).norm().item<double>();
    EXPECT_GE(error, best * 0.99999);
    EXPECT_LE(error, last * 1.00001);
    last = error;
  }
  EXPECT_LT(last, 1.01 * best);
}

TEST(LowRank, StartsDifferByKeyAndRepeatByKey) {
  const auto start = [](uint64_t seed, uint64_t key, int64_t layer, int64_t block) {
    auto generator = keyed_generator(seed, key, layer, block);
    return low_rank_start(generator, 1, 8, 8, 2);
  };
  EXPECT_TRUE(at::equal(start(1, 2, 3, 4), start(1, 2, 3, 4)));
  EXPECT_FALSE(at::equal(start(1, 2, 3, 4), start(2, 2, 3, 4)));
  EXPECT_FALSE(at::equal(start(1, 2, 3, 4), start(1, 3, 3, 4)));
  EXPECT_FALSE(at::equal(start(1, 2, 3, 4), start(1, 2, 4, 3)));
}

}  // namespace
}  // namespace kvc
