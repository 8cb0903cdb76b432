// Confidence intervals of one mean, and the median.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace kvc {

struct Interval {
  double low = 0, high = 0;
};

// The normal distribution: probability below z, and the z below which the probability is p (0 < p < 1).
double normal_cdf(double z);
double normal_quantile(double p);

// Wilson's score interval of a proportion k/n (E. B. Wilson, JASA 1927), in closed form; [0, 1] when n = 0.
// k may be a sum of scores between 0 and 1: those vary less than hits and misses of the same mean, so the interval is
// wide.
Interval wilson_interval(double k, double n, double confidence = 0.95);

struct Resampling {
  int64_t n_draws = 10'000;
  uint64_t seed = 0;
};

// BCa bootstrap interval of the mean (B. Efron, JASA 1987): bias from the share of resampled means below the mean (ties
// count half), acceleration from the jackknife, quantiles interpolated linearly. Draw j of a resample of n values takes
// value floor(u n / 2^32), u the low, then the high half of SplitMix64's outputs; an odd n leaves the last high half.
// Equal values give an interval without width. Throws Error for no values, or for none drawn.
Interval bootstrap_interval(std::span<const double> values, double confidence = 0.95, const Resampling& how = {});

double median(std::vector<double> values);  // of two in the middle their mean; throws Error for none
// The value below which a share p (0 to 1) of the values lies, interpolated linearly between the sorted values (R's type
// 7, NumPy's default); throws Error for none. quartile: the n-th of three.
double quantile(std::vector<double> values, double p);
std::vector<double> quantiles(std::vector<double> values, std::span<const double> ps);  // several, sorted once
double quartile(std::vector<double> values, int64_t n);

// Wilson's where every score is 0 or 1, else the bootstrap's.
bool is_binary(std::span<const double> scores);
Interval score_interval(std::span<const double> scores, double confidence = 0.95);

}  // namespace kvc
