#include "stats/power.h"

#include <algorithm>
#include <boost/math/distributions/binomial.hpp>
#include <boost/math/distributions/non_central_t.hpp>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>

#include "kvc/check.h"
#include "stats/interval.h"

namespace kvc {
namespace {

namespace bm = boost::math;

constexpr int64_t kMostPairs = int64_t{1} << 24;

void check_target(const PowerTarget& target) {
  KVC_CHECK(target.alpha > 0 && target.alpha < 1, "alpha ", target.alpha, ", allowed: above 0 and below 1");
  KVC_CHECK(target.power > target.alpha && target.power < 1, "power ", target.power, ", allowed: above alpha (",
            target.alpha, ") and below 1");
}

void check_pairs(int64_t n, int64_t least) {
  KVC_CHECK(n >= least && n <= kMostPairs, "n ", n, ", allowed: ", least, " to ", kMostPairs);
}

void check_discordant(double discordant, double difference) {
  KVC_CHECK(discordant > 0 && discordant <= 1, "discordant fraction ", discordant, ", allowed: above 0, at most 1");
  KVC_CHECK(difference > 0 && difference <= discordant, "difference ", difference,
            ", allowed: above 0 and at most the discordant fraction ", discordant);
}

double z_sum(const PowerTarget& target) {
  return normal_quantile(1 - target.alpha / 2) + normal_quantile(target.power);
}

double above(const bm::binomial& count, double k) { return bm::cdf(bm::complement(count, k)); }

// The least k that the exact test rejects, of n discordant pairs: twice P(k or more) is at most alpha; n + 1: none.
double critical_count(double n, double alpha) {
  const bm::binomial fair(n, 0.5);
  double k = std::ceil(n / 2 + std::sqrt(n) * normal_quantile(1 - alpha / 2) / 2);
  k = std::clamp(k, std::floor(n / 2) + 1, n + 1);
  while (k > std::floor(n / 2) + 1 && 2 * above(fair, k - 2) <= alpha) --k;
  while (k <= n && 2 * above(fair, k - 1) > alpha) ++k;
  return k;
}

double rejection_share(double n_discordant, double share_up, double alpha) {
  if (n_discordant == 0) return 0;
  const double k = critical_count(n_discordant, alpha);
  if (k > n_discordant) return 0;
  const bm::binomial up(n_discordant, share_up);
  return above(up, k - 1) + bm::cdf(up, n_discordant - k);
}

// The least n >= `least` with `has_power(n)`, by doubling, then halving.
template <class Predicate>
std::optional<int64_t> least_pairs(int64_t least, Predicate has_power) {
  int64_t high = least;
  while (!has_power(high)) {
    if (high >= kMostPairs) return std::nullopt;
    high = std::min(2 * high, kMostPairs);
  }
  int64_t low = high == least ? least - 1 : high / 2;
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    (has_power(middle) ? high : low) = middle;
  }
  return high;
}

// The least x in (0, most] with power_at(x) >= power, to 1e-7 of `most`; power_at rises.
template <class Function>
double least_difference(double most, double power, Function power_at) {
  double low = 0, high = most;
  while (high - low > 1e-7 * most) {
    const double middle = (low + high) / 2;
    (power_at(middle) >= power ? high : low) = middle;
  }
  return high;
}

}  // namespace

double seen_difference(int64_t n, double discordant, const PowerTarget& target) {
  check_target(target);
  check_pairs(n, 1);
  check_discordant(discordant, discordant);
  return z_sum(target) * std::sqrt(discordant / static_cast<double>(n));
}

int64_t pairs_needed(double difference, double discordant, const PowerTarget& target) {
  check_target(target);
  check_discordant(discordant, difference);
  const double ratio = z_sum(target) / difference;
  return static_cast<int64_t>(std::ceil(ratio * ratio * discordant));
}

double mcnemar_power(int64_t n, double difference, double discordant, double alpha) {
  check_pairs(n, 1);
  check_discordant(discordant, difference);
  const double pairs = static_cast<double>(n), share_up = (discordant + difference) / (2 * discordant);
  if (discordant == 1) return rejection_share(pairs, share_up, alpha);
  const bm::binomial count(pairs, discordant);
  const double mean = pairs * discordant, reach = 9 * std::sqrt(mean * (1 - discordant)) + 40;  // beyond: below 1e-15
  double power = 0;
  for (double k = std::max(0.0, std::floor(mean - reach)); k <= std::min(pairs, mean + reach); ++k) {
    const double weight = bm::pdf(count, k);
    if (weight > 1e-18) power += weight * rejection_share(k, share_up, alpha);
  }
  return power;
}

std::optional<double> seen_difference_exact(int64_t n, double discordant, const PowerTarget& target) {
  check_target(target);
  if (mcnemar_power(n, discordant, discordant, target.alpha) < target.power) return std::nullopt;
  return least_difference(discordant, target.power,
                          [&](double d) { return mcnemar_power(n, d, discordant, target.alpha); });
}

std::optional<int64_t> pairs_needed_exact(double difference, double discordant, const PowerTarget& target) {
  check_target(target);
  check_discordant(discordant, difference);
  return least_pairs(1,
                     [&](int64_t n) { return mcnemar_power(n, difference, discordant, target.alpha) >= target.power; });
}

double paired_t_power(int64_t n, double difference, double sd, double alpha) {
  check_pairs(n, 2);
  KVC_CHECK(sd > 0, "standard deviation of differences ", sd, ", allowed: above 0");
  const double freedom = static_cast<double>(n - 1), shift = difference / sd * std::sqrt(static_cast<double>(n));
  if (shift > 40 && n > 30) return 1;  // the noncentral t lies far above any critical value
  const double critical = bm::quantile(bm::complement(bm::students_t(freedom), alpha / 2));
  const bm::non_central_t t(freedom, shift);
  return bm::cdf(bm::complement(t, critical)) + bm::cdf(t, -critical);
}

double seen_difference_t(int64_t n, double sd, const PowerTarget& target) {
  check_target(target);
  double most = sd;
  while (paired_t_power(n, most, sd, target.alpha) < target.power) most *= 2;
  return least_difference(most, target.power, [&](double d) { return paired_t_power(n, d, sd, target.alpha); });
}

std::optional<int64_t> pairs_needed_t(double difference, double sd, const PowerTarget& target) {
  check_target(target);
  KVC_CHECK(difference > 0, "difference ", difference, ", allowed: above 0");
  return least_pairs(2, [&](int64_t n) { return paired_t_power(n, difference, sd, target.alpha) >= target.power; });
}

}  // namespace kvc
