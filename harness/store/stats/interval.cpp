#include "stats/interval.h"

#include <algorithm>
#include <boost/math/distributions/normal.hpp>
#include <cmath>
#include <numeric>
#include <vector>

#include "kvc/check.h"
#include "stats/random.h"

namespace kvc {
namespace {

// Calls even(i), odd(i), even(i), ... with n indices drawn from 0 to n - 1.
template <class Even, class Odd>
void draw(uint64_t n, SplitMix64& random, Even even, Odd odd) {
  const auto picked = [&](uint64_t u) { return static_cast<size_t>((u * n) >> 32); };
  for (uint64_t i = 0; i + 1 < n; i += 2) {
    const uint64_t u = random.next();
    even(picked(u & 0xFFFFFFFF));
    odd(picked(u >> 32));
  }
  if (n % 2) even(picked(random.next() & 0xFFFFFFFF));
}

double resampled_sum(std::span<const double> values, SplitMix64& random) {
  double even = 0, odd = 0;
  draw(
      values.size(), random, [&](size_t i) { even += values[i]; }, [&](size_t i) { odd += values[i]; });
  return even + odd;
}

std::vector<double> sorted_resampled_means(std::span<const double> values, const Resampling& how) {
  SplitMix64 random(how.seed);
  std::vector<double> means(static_cast<size_t>(how.n_draws));
  for (auto& mean : means) mean = resampled_sum(values, random) / static_cast<double>(values.size());
  std::sort(means.begin(), means.end());
  return means;
}

// Of the mean, closed form: the jackknife's deviations are those of the values, over n - 1.
double acceleration(std::span<const double> values, double mean) {
  double squares = 0, cubes = 0;
  for (const double value : values) {
    const double deviation = value - mean;
    squares += deviation * deviation;
    cubes += deviation * deviation * deviation;
  }
  return cubes / (6 * std::pow(squares, 1.5));
}

// Share of sorted values below `point`; ties, up to the rounding of sums, count half.
double share_below(const std::vector<double>& sorted, double point, double rounding) {
  const auto low = std::lower_bound(sorted.begin(), sorted.end(), point - rounding) - sorted.begin();
  const auto high = std::upper_bound(sorted.begin(), sorted.end(), point + rounding) - sorted.begin();
  const double half_draw = 0.5 / static_cast<double>(sorted.size());
  const double share = static_cast<double>(low + high) / 2 / static_cast<double>(sorted.size());
  return std::clamp(share, half_draw, 1 - half_draw);
}

double interpolated_quantile(const std::vector<double>& sorted, double p) {
  const double place = p * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(place);
  const auto above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (place - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

// Of sorted resampled values around the one that was measured, with acceleration a.
Interval bca_interval(const std::vector<double>& sorted, double measured, double a, double rounding,
                      double confidence) {
  const double bias = normal_quantile(share_below(sorted, measured, rounding));
  const auto bound = [&](double p) {
    const double z = bias + normal_quantile(p);
    return interpolated_quantile(sorted, normal_cdf(bias + z / (1 - a * z)));
  };
  return {bound(0.5 - confidence / 2), bound(0.5 + confidence / 2)};
}

}  // namespace

double normal_cdf(double z) { return 0.5 * std::erfc(-z / std::sqrt(2.0)); }
double normal_quantile(double p) { return boost::math::quantile(boost::math::normal(), p); }

Interval wilson_interval(double k, double n, double confidence) {
  if (n <= 0) return {0, 1};
  const double z = normal_quantile(0.5 + confidence / 2);
  const double p = k / n, z2 = z * z;
  const double center = (p + z2 / (2 * n)) / (1 + z2 / n);
  const double half_width = z / (1 + z2 / n) * std::sqrt(p * (1 - p) / n + z2 / (4 * n * n));
  return {std::max(0.0, center - half_width), std::min(1.0, center + half_width)};
}

Interval bootstrap_interval(std::span<const double> values, double confidence, const Resampling& how) {
  KVC_CHECK(!values.empty() && values.size() < (uint64_t{1} << 31) && how.n_draws > 0, "bootstrap: ", values.size(),
            " values and ", how.n_draws, " draws, allowed: 1 or more of each");
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  if (*least == *most) return {*least, *least};
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  const double rounding = 1e-12 * std::max(std::abs(*least), std::abs(*most));
  return bca_interval(sorted_resampled_means(values, how), mean, acceleration(values, mean), rounding, confidence);
}

double median(std::vector<double> values) {
  KVC_CHECK(!values.empty(), "the median of no values");
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 ? values[half] : (values[half - 1] + values[half]) / 2;
}

std::vector<double> quantiles(std::vector<double> values, std::span<const double> ps) {
  KVC_CHECK(!values.empty(), "a quantile of no values");
  std::sort(values.begin(), values.end());
  std::vector<double> found;
  for (const double p : ps) {
    KVC_CHECK(p >= 0 && p <= 1, "quantile ", p, ", allowed: 0 to 1");
    found.push_back(interpolated_quantile(values, p));
  }
  return found;
}

double quantile(std::vector<double> values, double p) { return quantiles(std::move(values), {&p, 1}).front(); }

double quartile(std::vector<double> values, int64_t n) {
  KVC_CHECK(n >= 1 && n <= 3, "quartile ", n, ", allowed: 1 to 3");
  return quantile(std::move(values), static_cast<double>(n) / 4);
}

bool is_binary(std::span<const double> scores) {
  return std::all_of(scores.begin(), scores.end(), [](double score) { return score == 0 || score == 1; });
}

Interval score_interval(std::span<const double> scores, double confidence) {
  if (!is_binary(scores)) return bootstrap_interval(scores, confidence);
  const double n_right = std::accumulate(scores.begin(), scores.end(), 0.0);
  return wilson_interval(n_right, static_cast<double>(scores.size()), confidence);
}

}  // namespace kvc
