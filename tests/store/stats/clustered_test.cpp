// Intervals of clustered values: what they are of, and how often they hold the truth.
#include "stats/clustered.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "support/message_of.h"

namespace kvc {
namespace {

// Differences of two heavy-tailed losses on the same tokens: windows differ in scale, blocks in a window are alike.
std::vector<Cluster> made(std::mt19937_64& random, int n_windows, int n_blocks) {
  std::normal_distribution<double> normal;
  std::vector<Cluster> clusters(static_cast<size_t>(n_windows));
  for (auto& cluster : clusters) {
    const double scale = std::exp(0.5 * normal(random)), shift = 0.3 * normal(random);
    for (int i = 0; i < n_blocks; ++i) {
      const double b = std::exp(normal(random)), a = 0.7 * std::exp(normal(random));
      cluster.values.push_back(16 * (scale * (b - a) + shift));
      cluster.weights.push_back(16);
    }
  }
  return clusters;
}

TEST(ClusteredInterval, HoldsTheTruthIn93To97PercentOf2000DataSets) {
  const double truth = std::exp(0.125) * 0.3 * std::exp(0.5);
  std::mt19937_64 random(7);
  for (const auto& [n_windows, n_blocks] : {std::pair(12, 4), std::pair(20, 4), std::pair(24, 8)}) {
    int n_held = 0;
    for (int i = 0; i < 2000; ++i) {
      const auto found = clustered_interval(made(random, n_windows, n_blocks), 0.95, {.n_draws = 400});
      n_held += found.low <= truth && truth <= found.high;
    }
    EXPECT_GE(n_held, 1860) << n_windows;
    EXPECT_LE(n_held, 1940) << n_windows;
  }
}

TEST(ClusteredInterval, IsWiderThanOneOverBlocksWhereWindowsDiffer) {
  std::vector<Cluster> clusters;
  std::vector<double> values;
  for (int w = 0; w < 8; ++w) {
    for (int i = 0; i < 10; ++i) values.push_back(w + 0.01 * i);
    clusters.push_back({{values.end() - 10, values.end()}, std::vector<double>(10, 1.0)});
  }
  const auto found = clustered_interval(clusters), flat = bootstrap_interval(values);
  EXPECT_GT(found.high - found.low, 2 * (flat.high - flat.low));
}

TEST(ClusteredInterval, OfEqualValuesHasNoWidthAndWeighsItems) {
  const auto found = clustered_interval(std::vector<Cluster>{{{2, 4}, {1, 2}}, {{6}, {3}}, {{8, 2}, {4, 1}}});
  EXPECT_DOUBLE_EQ(found.low, 2);
  EXPECT_DOUBLE_EQ(found.high, 2);
}

TEST(ClusteredInterval, RefusesWhatHasNoMean) {
  EXPECT_NE(test::message_of([] { clustered_interval({}); }).find("0 clusters and 10000 draws"), std::string::npos);
  EXPECT_NE(test::message_of([] {
              clustered_interval(std::vector<Cluster>{{{1}, {1}}, {{}, {}}});
            }).find("a cluster of 0 values"),
            std::string::npos);
}

TEST(Quantile, InterpolatesAsNumpyDoes) {
  const std::vector<double> values{4, 1, 3, 2};
  EXPECT_DOUBLE_EQ(quantile(values, 0), 1);
  EXPECT_DOUBLE_EQ(quantile(values, 0.9), 3.7);
  EXPECT_DOUBLE_EQ(quantile(values, 1), 4);
  EXPECT_NE(test::message_of([] { quantile({}, 0.5); }).find("no values"), std::string::npos);
}

}  // namespace
}  // namespace kvc
