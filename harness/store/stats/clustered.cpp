#include "stats/clustered.h"

#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <numeric>

#include "kvc/check.h"
#include "stats/random.h"

namespace kvc {
namespace {

// From 0 to n - 1; n below 2^32.
size_t drawn(SplitMix64& random, size_t n) { return static_cast<size_t>(((random.next() >> 32) * n) >> 32); }

double resampled_ratio(std::span<const Cluster> clusters, SplitMix64& random) {
  double sum = 0, weight = 0;
  for (size_t c = 0; c < clusters.size(); ++c) {
    const auto& [values, weights] = clusters[drawn(random, clusters.size())];
    for (size_t k = 0; k < values.size(); ++k) {
      const auto i = drawn(random, values.size());
      sum += values[i];
      weight += weights[i];
    }
  }
  return sum / weight;
}

struct Sums {
  double value = 0, weight = 0;
};

Sums sums_of(const Cluster& cluster) {
  return {std::accumulate(cluster.values.begin(), cluster.values.end(), 0.0),
          std::accumulate(cluster.weights.begin(), cluster.weights.end(), 0.0)};
}

Sums sums_of_all(std::span<const Cluster> clusters) {
  Sums all;
  for (const auto& cluster : clusters) {
    const auto [value, weight] = sums_of(cluster);
    all.value += value, all.weight += weight;
  }
  return all;
}

// Half the width of the ratio's interval by Student's t on the clusters' residuals.
double half_width_of(std::span<const Cluster> clusters, double confidence) {
  const auto all = sums_of_all(clusters);
  const double ratio = all.value / all.weight, n = static_cast<double>(clusters.size());
  double squares = 0;
  for (const auto& cluster : clusters) {
    const auto [value, weight] = sums_of(cluster);
    squares += (value - ratio * weight) * (value - ratio * weight);
  }
  const double t = boost::math::quantile(boost::math::students_t(n - 1), 0.5 + confidence / 2);
  return t * std::sqrt(squares * n / (n - 1)) / all.weight;
}

double standard_deviation(const std::vector<double>& values) {
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return std::sqrt(squares / static_cast<double>(values.size()));
}

}  // namespace

double clustered_mean(std::span<const Cluster> clusters) {
  const auto all = sums_of_all(clusters);
  return all.value / all.weight;
}

Interval clustered_interval(std::span<const Cluster> clusters, double confidence, const Resampling& how) {
  KVC_CHECK(clusters.size() > 1 && how.n_draws > 0, "bootstrap: ", clusters.size(), " clusters and ", how.n_draws,
            " draws, allowed: 2 or more, 1 or more");
  for (const auto& [values, weights] : clusters) {
    KVC_CHECK(!values.empty() && values.size() == weights.size(), "bootstrap: a cluster of ", values.size(),
              " values and ", weights.size(), " weights");
  }
  SplitMix64 random(how.seed);
  std::vector<double> ratios(static_cast<size_t>(how.n_draws));
  for (auto& ratio : ratios) ratio = resampled_ratio(clusters, random);
  const double ratio = clustered_mean(clusters), half_width = half_width_of(clusters, confidence);
  const double spread = standard_deviation(ratios) * normal_quantile(0.5 + confidence / 2);
  if (spread == 0) return {ratio, ratio};
  const double factor = half_width / spread, ps[] = {0.5 - confidence / 2, 0.5 + confidence / 2};
  const auto bounds = quantiles(std::move(ratios), ps);
  return {ratio - std::max(half_width, factor * (ratio - bounds[0])),
          ratio + std::max(half_width, factor * (bounds[1] - ratio))};
}

std::optional<Interval> interval_of_texts(std::span<const Cluster> windows, const Interval& possible) {
  if (windows.size() < kFewestClusters) return std::nullopt;
  const auto [low, high] = clustered_interval(windows);
  return Interval{std::max(low, possible.low), std::min(high, possible.high)};
}

}  // namespace kvc
