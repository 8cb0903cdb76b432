#include "kvc/quant/outliers.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace kvc {
namespace {

TEST(Outliers, AreCountedHalfToEvenAndNeverMoreThanTheVector) {
  EXPECT_EQ(n_outliers_per_side(0.02, 900), 9);
  EXPECT_EQ(n_outliers_per_side(0.02, 64), 1);  // 0.64
  EXPECT_EQ(n_outliers_per_side(0.02, 20), 0);  // 0.2
  EXPECT_EQ(n_outliers_per_side(0.02, 4096), 41);
  EXPECT_EQ(n_outliers_per_side(0.1, 50), 2);  // 2.5
  EXPECT_EQ(n_outliers_per_side(1, 7), 3);
}

TEST(Outliers, TakeTheExtremesOfEachVectorAndTheLowestIndexOfTies) {
  // One head, one channel, eight tokens: two smallest and two largest.
  const auto x = at::tensor({5.f, 1.f, 1.f, 1.f, 3.f, 5.f, 5.f, 2.f}).view({1, 8, 1});
  const auto found = find_outliers(x, 0.5, GroupAxis::tokens);
  EXPECT_TRUE(at::equal(found.index.flatten().to(at::kInt), at::tensor({0, 1, 2, 5}, at::kInt)));
}

TEST(Outliers, AreDisjointOnAConstantVector) {
  const auto found = find_outliers(at::ones({1, 8, 2}), 0.5, GroupAxis::tokens);
  EXPECT_TRUE(at::equal(found.index[0][1].to(at::kInt), at::tensor({0, 1, 2, 3}, at::kInt)));
}

// Against sorting, on vectors of few values: nearly every choice is one among ties. Long ones with few outliers are
// where a sample tells the rare from the rest, and those in ascending order, or alike but for some, mislead it.
TEST(Outliers, AreThoseThatSortingFindsWhateverTies) {
  at::manual_seed(10);
  for (int run = 0; run < 260; ++run) {
    const bool large = run >= 200;
    const int64_t n = large ? 2048 + 997 * (run % 7) : 4 + run % 40;
    const double fraction = large ? 0.02 : 0.4;
    auto x = large && run % 2 == 0 ? at::randn({1, n, 1}) : at::randint(1 + run % 5, {1, n, 1}).to(at::kFloat);
    if (large && run % 3 == 0) x = std::get<0>(x.sort(1));
    if (large && run % 5 == 0) x.narrow(1, 7, n - 20).fill_(0.5);
    const auto found = find_outliers(x, fraction, GroupAxis::tokens);
    const int64_t k = n_outliers_per_side(fraction, n);
    if (k == 0) continue;
    const float* values = x.const_data_ptr<float>();
    std::vector<int32_t> order(static_cast<size_t>(n));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return values[a] < values[b]; });
    std::sort(order.begin() + k, order.end());
    std::stable_sort(order.begin() + k, order.end(), [&](int32_t a, int32_t b) { return values[a] > values[b]; });
    order.resize(static_cast<size_t>(2 * k));
    std::sort(order.begin(), order.end());
    EXPECT_TRUE(at::equal(found.index.flatten().to(at::kInt), at::tensor(order, at::kInt))) << x.flatten();
  }
}

TEST(Outliers, MaskAndSumReachTheRightEntries) {
  at::manual_seed(9);
  const auto x = at::randn({2, 300, 16});
  for (const auto axis : {GroupAxis::tokens, GroupAxis::channels}) {
    auto found = find_outliers(x, 0.1, axis);
    const auto mask = outlier_mask(found, 2, 300, 16);
    auto first = x.narrow(0, 0, 1).clone(), second = x.narrow(0, 1, 1).clone();
    take_values(found, second, 1), take_values(found, first, 0);
    round_values(found, Precision::exact);
    EXPECT_TRUE(at::equal(at::cat({first, second}), x.masked_fill(mask, 0)));
    auto sum = at::zeros_like(x);
    found.add_to_(sum);
    EXPECT_TRUE(at::equal(sum, x * mask));
    // 10% of 300 tokens: 15 a side; 10% of 32 channels: 2 (1.6) a side
    EXPECT_EQ(mask.sum().item<int64_t>(), axis == GroupAxis::tokens ? 2 * 16 * 30 : 300 * 4);
    EXPECT_EQ(found.index.scalar_type(), axis == GroupAxis::tokens ? at::kUInt16 : at::kByte);
  }
}

TEST(Outliers, RefuseVectorsBeyondTheirIndex) {
  EXPECT_THROW(find_outliers(at::ones({1, 65537, 1}), 0.01, GroupAxis::tokens), Error);
}

}  // namespace
}  // namespace kvc
