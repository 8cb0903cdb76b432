// What n pairs can show, and how many pairs a difference needs. Tests are two-sided at `alpha`; scores lie in [0, 1].
#pragma once

#include <cstdint>
#include <optional>

namespace kvc {

struct PowerTarget {
  double alpha = 0.05;
  double power = 0.8;
};

// Right/wrong answers of which a share `discordant` changes from A to B, by the normal approximation: a difference d
// is seen when d = (z_{1-alpha/2} + z_power) sqrt(discordant / n).
double seen_difference(int64_t n, double discordant, const PowerTarget& target = {});
int64_t pairs_needed(double difference, double discordant, const PowerTarget& target = {});

// The power of the exact McNemar test (Connor 1987's unconditional setting): discordant pairs are Binomial(n,
// discordant), those for B Binomial of them with probability (discordant + difference) / (2 discordant).
double mcnemar_power(int64_t n, double difference, double discordant, double alpha = 0.05);
// The least difference that the exact test sees; nothing when all discordant pairs one way are not enough.
std::optional<double> seen_difference_exact(int64_t n, double discordant, const PowerTarget& target = {});
// The least n found between powers of two; nothing above 2^24.
std::optional<int64_t> pairs_needed_exact(double difference, double discordant, const PowerTarget& target = {});

// Graded scores whose differences have standard deviation `sd`, by the paired t test (noncentral t).
double paired_t_power(int64_t n, double difference, double sd, double alpha = 0.05);
double seen_difference_t(int64_t n, double sd, const PowerTarget& target = {});  // n >= 2
std::optional<int64_t> pairs_needed_t(double difference, double sd, const PowerTarget& target = {});

}  // namespace kvc
