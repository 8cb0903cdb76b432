#include "stats/paired.h"

#include <algorithm>
#include <bit>
#include <boost/math/distributions/binomial.hpp>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <limits>
#include <numeric>

#include "kvc/check.h"
#include "stats/random.h"

namespace kvc {
namespace {

constexpr size_t kMostExactFlips = 20;

// Tango's restricted estimate of P(right to wrong) when P(wrong to right) is it plus `delta`: the larger root of
// 2n q^2 + B q + C.
double restricted_estimate(const PairedCounts& counts, double delta) {
  const double n = static_cast<double>(counts.n);
  const double up = static_cast<double>(counts.wrong_to_right), down = static_cast<double>(counts.right_to_wrong);
  const double minus_b = up + down - (2 * n - up + down) * delta;
  const double c = -down * delta * (1 - delta);
  const double root = std::sqrt(std::max(0.0, minus_b * minus_b - 8 * n * c));
  if (minus_b >= 0) return (minus_b + root) / (4 * n);
  return root > minus_b ? 2 * c / (minus_b - root) : 0;
}

// The score statistic of "the difference is delta": falls as delta rises; 0 at the difference seen.
double score_z(const PairedCounts& counts, double delta) {
  const double n = static_cast<double>(counts.n);
  const double excess = static_cast<double>(counts.wrong_to_right - counts.right_to_wrong) - n * delta;
  const double variance = n * (2 * restricted_estimate(counts, delta) + delta * (1 - delta));
  if (excess == 0) return 0;
  if (variance <= 0) return std::copysign(std::numeric_limits<double>::infinity(), excess);
  return excess / std::sqrt(variance);
}

// Where the score statistic falls through `z` between `low` and `high`.
double score_bound(const PairedCounts& counts, double low, double high, double z) {
  while (true) {
    const double middle = low + (high - low) / 2;
    if (middle <= low || middle >= high) return middle;
    (score_z(counts, middle) > z ? low : high) = middle;
  }
}

// Sums of all 2^k ways to flip the signs of `sizes`.
std::vector<double> flipped_sums(std::span<const double> sizes) {
  std::vector<double> sums = {0};
  for (const double size : sizes) {
    const size_t n = sums.size();
    for (size_t i = 0; i < n; ++i) {
      sums.push_back(sums[i] + size);
      sums[i] -= size;
    }
  }
  return sums;
}

double exact_flip_p(const std::vector<double>& differences, double observed) {
  const std::span all(differences);
  const auto low = flipped_sums(all.first(all.size() / 2)), high = flipped_sums(all.subspan(all.size() / 2));
  int64_t n_hits = 0;
  for (const double a : low) {
    for (const double b : high) n_hits += std::abs(a + b) >= observed;
  }
  return static_cast<double>(n_hits) / static_cast<double>(low.size() * high.size());
}

double drawn_flip_p(const std::vector<double>& differences, double observed, const Resampling& how) {
  SplitMix64 random(how.seed);
  int64_t n_hits = 0;
  for (int64_t draw = 0; draw < how.n_draws; ++draw) {
    double sum = 0;
    for (size_t first = 0; first < differences.size(); first += 64) {
      const uint64_t signs = random.next();
      const size_t n = std::min<size_t>(64, differences.size() - first);
      for (size_t i = 0; i < n; ++i) {
        const uint64_t sign = (signs >> i) << 63;
        sum += std::bit_cast<double>(std::bit_cast<uint64_t>(differences[first + i]) ^ sign);
      }
    }
    n_hits += std::abs(sum) >= observed;
  }
  return static_cast<double>(n_hits + 1) / static_cast<double>(how.n_draws + 1);
}

void check_margin(double margin) {
  KVC_CHECK(margin > 0 && margin < 1, "margin ", margin, " of the score, allowed: above 0 and below 1");
}

}  // namespace

double mcnemar_exact(int64_t b, int64_t c) {
  KVC_CHECK(b >= 0 && c >= 0, "McNemar: counts ", b, " and ", c, ", allowed: 0 or more");
  if (b == c) return 1;
  const boost::math::binomial flips(static_cast<double>(b + c), 0.5);
  return std::min(1.0, 2 * boost::math::cdf(flips, static_cast<double>(std::min(b, c))));
}

Interval tango_interval(const PairedCounts& counts, double confidence) {
  KVC_CHECK(counts.n > 0, "interval of a difference: no pairs");
  const double z = normal_quantile(0.5 + confidence / 2), seen = counts.difference();
  return {score_bound(counts, -1, seen, z), score_bound(counts, seen, 1, -z)};
}

double sample_deviation(std::span<const double> values) {
  if (values.size() < 2) return 0;
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return std::sqrt(squares / static_cast<double>(values.size() - 1));
}

SignFlip sign_flip_test(std::span<const double> differences, const Resampling& how) {
  std::vector<double> moved;
  std::copy_if(differences.begin(), differences.end(), std::back_inserter(moved), [](double d) { return d != 0; });
  double size = 0;
  for (const double difference : moved) size += std::abs(difference);
  const double sum = std::accumulate(moved.begin(), moved.end(), 0.0);
  const double observed = std::abs(sum) - 1e-11 * size;  // sums that rounding alone tells apart are equal
  if (moved.size() <= kMostExactFlips) return {exact_flip_p(moved, observed), true};
  return {drawn_flip_p(moved, observed, how), false};
}

Equivalence tost_t(std::span<const double> differences, double margin) {
  check_margin(margin);
  if (differences.size() < 2) return {};
  const double n = static_cast<double>(differences.size());
  const double mean = std::accumulate(differences.begin(), differences.end(), 0.0) / n;
  double squares = 0;
  for (const double difference : differences) squares += (difference - mean) * (difference - mean);
  const double error = std::sqrt(squares / (n - 1) / n);
  if (error == 0) return {mean > -margin ? 0.0 : 1.0, mean < margin ? 0.0 : 1.0};
  const boost::math::students_t t(n - 1);
  return {boost::math::cdf(boost::math::complement(t, (mean + margin) / error)),
          boost::math::cdf(t, (mean - margin) / error)};
}

Equivalence tost_binary(const PairedCounts& counts, double margin) {
  check_margin(margin);
  KVC_CHECK(counts.n > 0, "equivalence: no pairs");
  return {normal_cdf(-score_z(counts, -margin)), normal_cdf(score_z(counts, margin))};
}

std::vector<double> holm(std::span<const double> p_values) {
  std::vector<size_t> order(p_values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return p_values[a] < p_values[b]; });
  std::vector<double> adjusted(p_values.size());
  double highest = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    highest = std::max(highest, std::min(1.0, static_cast<double>(order.size() - i) * p_values[order[i]]));
    adjusted[order[i]] = highest;
  }
  return adjusted;
}

std::vector<std::optional<double>> holm(std::span<const std::optional<double>> p_values) {
  std::vector<double> known;
  for (const auto& p : p_values) {
    if (p) known.push_back(*p);
  }
  const auto adjusted = holm(std::span<const double>(known));
  auto next = adjusted.begin();
  std::vector<std::optional<double>> all;
  for (const auto& p : p_values) all.push_back(p ? std::optional(*next++) : std::nullopt);
  return all;
}

}  // namespace kvc
