// Tests on pairs: the same questions answered twice, by A and by B. Differences are B - A, scores lie in [0, 1].
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "stats/interval.h"

namespace kvc {

// Pairs of right/wrong answers, by what became of them from A to B.
struct PairedCounts {
  int64_t n = 0, right_to_wrong = 0, wrong_to_right = 0;
  double difference() const { return static_cast<double>(wrong_to_right - right_to_wrong) / static_cast<double>(n); }
};

// Exact two-sided p of the two discordant counts (Q. McNemar, Psychometrika 1947): twice the smaller tail of
// Binomial(b + c, 1/2), at most 1.
double mcnemar_exact(int64_t b, int64_t c);

// Interval of the difference of two paired proportions by inverting the score test (T. Tango, Stat. Med. 1998).
Interval tango_interval(const PairedCounts& counts, double confidence = 0.95);

// The mean difference's two-sided p when each difference is as likely to have the other sign (R. A. Fisher 1935).
struct SignFlip {
  double p = 1;
  bool is_exact = false;
};
// All 2^k flips of the k differences that are not 0 while k <= 20; else (hits + 1) / (draws + 1) of drawn flips (B.
// Phipson, G. Smyth 2010), whose signs are SplitMix64's bits, lowest first, 64 differences an output.
SignFlip sign_flip_test(std::span<const double> differences, const Resampling& how = {});

// Of a sample, with n - 1; 0 for one value.
double sample_deviation(std::span<const double> values);

// Two one-sided tests (D. J. Schuirmann 1987) against the margin m > 0.
struct Equivalence {
  double p_no_worse = 1;                                                            // of "B is worse by m or more"
  double p_no_better = 1;                                                           // of "B is better by m or more"
  double p() const { return p_no_worse > p_no_better ? p_no_worse : p_no_better; }  // of "they differ by m or more"
};
// By Student's t on the differences, n - 1 degrees of freedom. Without spread it is certain: p is 0 or 1; 1 when n < 2.
Equivalence tost_t(std::span<const double> differences, double margin);
// By Tango's score statistic: no spread is needed, so a handful of equal answers proves nothing.
Equivalence tost_binary(const PairedCounts& counts, double margin);

// p-values adjusted for all of them being looked at (S. Holm 1979), in the order given.
std::vector<double> holm(std::span<const double> p_values);
// The same over those that are known.
std::vector<std::optional<double>> holm(std::span<const std::optional<double>> p_values);

}  // namespace kvc
