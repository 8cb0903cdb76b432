#include "stats/power.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kvc/check.h"

namespace kvc {
namespace {

// AQuA has 254 questions, GSM8K 1,319: with 20 % discordant pairs they resolve 7.9 and 3.4 points at 80 % power.
TEST(Power, OfTheBenchmarks) {
  EXPECT_EQ(std::round(1000 * seen_difference(254, 0.2)), 79);
  EXPECT_EQ(std::round(1000 * seen_difference(1319, 0.2)), 34);
}

TEST(Power, OfTheExactTestByHand) {
  // 6 pairs, all discordant: only 6:0 and 0:6 are significant at 0.05; 0.9^6 + 0.1^6.
  EXPECT_NEAR(mcnemar_power(6, 0.8, 1.0), 0.531441 + 0.000001, 1e-12);
  EXPECT_EQ(mcnemar_power(5, 1.0, 1.0), 0);                            // 5:0 has p = 0.0625
  EXPECT_NEAR(mcnemar_power(6, 0.8, 1.0, 1.0 / 32), 0.531442, 1e-12);  // 6:0 has p = alpha, which is enough
  // 6 pairs, half of them discordant, all one way: all six must be, (1/2)^6.
  EXPECT_NEAR(mcnemar_power(6, 0.5, 0.5), 1.0 / 64, 1e-12);
}

TEST(Power, RisesWithTheDifferenceAndFindsItAgain) {
  const auto seen = seen_difference_exact(254, 0.2);
  ASSERT_TRUE(seen);
  EXPECT_NEAR(mcnemar_power(254, *seen, 0.2), 0.8, 1e-4);
  EXPECT_GT(*seen, seen_difference(254, 0.2));  // the exact test is the stricter one
  const auto needed = pairs_needed_exact(*seen, 0.2);
  ASSERT_TRUE(needed);
  EXPECT_NEAR(static_cast<double>(*needed), 254, 4);
}

TEST(Power, IsOutOfReachWithFewPairs) {
  EXPECT_FALSE(seen_difference_exact(10, 0.2));
  EXPECT_FALSE(pairs_needed_exact(1e-5, 0.9));
}

TEST(Power, OfTheTTest) {
  // Cohen 1988: 34 pairs find half a standard deviation at 80 %.
  EXPECT_EQ(pairs_needed_t(0.5, 1), 34);
  EXPECT_NEAR(seen_difference_t(34, 0.3), 0.15, 0.002);
  EXPECT_NEAR(paired_t_power(20, 0, 1, 0.05), 0.05, 1e-9);
  EXPECT_NEAR(paired_t_power(5000, 1, 0.1), 1, 1e-12);
}

TEST(Power, RefusesWhatCannotBe) {
  EXPECT_THROW(seen_difference(0, 0.2), Error);
  EXPECT_THROW(seen_difference(10, 0), Error);
  EXPECT_THROW(seen_difference(10, 0.2, {.alpha = 0.05, .power = 1}), Error);
  EXPECT_THROW(seen_difference(10, 0.2, {.alpha = 0, .power = 0.8}), Error);
  EXPECT_THROW(mcnemar_power(10, 0.3, 0.2), Error);
  EXPECT_THROW(paired_t_power(1, 0.3, 0.2), Error);
  EXPECT_THROW(paired_t_power(10, 0.3, 0), Error);
}

}  // namespace
}  // namespace kvc
