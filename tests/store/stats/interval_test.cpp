#include "stats/interval.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kvc/check.h"
#include "stats/random.h"
#include "support/processor_seconds.h"

namespace kvc {
namespace {

using Values = std::vector<double>;

// R's binom::binom.confint(k, n, method = "wilson"), and the closed form z^2/(n+z^2) at the ends.
TEST(Wilson, HasTheKnownValues) {
  EXPECT_NEAR(wilson_interval(5, 10).low, 0.2365931, 1e-7);
  EXPECT_NEAR(wilson_interval(5, 10).high, 0.7634069, 1e-7);
  EXPECT_NEAR(wilson_interval(0, 10).high, 3.841458820694124 / 13.841458820694124, 1e-12);
  EXPECT_EQ(wilson_interval(0, 10).low, 0);
  EXPECT_NEAR(wilson_interval(10, 10).low, 10 / 13.841458820694124, 1e-12);
  EXPECT_NEAR(wilson_interval(10, 10).high, 1, 1e-12);
  EXPECT_EQ(wilson_interval(0, 0).high, 1);
}

// The generator's published test values for seed 1234567.
TEST(SplitMix64, HasTheKnownOutputs) {
  SplitMix64 random(1234567);
  EXPECT_EQ(random.next(), 6457827717110365317u);
  EXPECT_EQ(random.next(), 3203168211198807973u);
}

TEST(Bootstrap, OfTwoValuesSpansThem) {  // a quarter of the resamples has mean 0, a quarter 1
  const auto interval = bootstrap_interval(Values{0, 1});
  EXPECT_EQ(interval.low, 0);
  EXPECT_EQ(interval.high, 1);
}

TEST(Bootstrap, OfEqualValuesHasNoWidth) {
  const auto interval = bootstrap_interval(Values(7, 0.4));
  EXPECT_EQ(interval.low, 0.4);
  EXPECT_EQ(interval.high, 0.4);
  EXPECT_THROW(bootstrap_interval(Values{}), Error);
  EXPECT_THROW(bootstrap_interval(Values{1}, 0.95, {.n_draws = 0}), Error);
}

TEST(Bootstrap, IsTheNormalIntervalOfManyValues) {  // mean 1/2, variance 1/12: half width 1.96 sqrt(1/12/1000)
  Values values;
  for (int i = 0; i < 1000; ++i) values.push_back((i + 0.5) / 1000);
  const auto interval = bootstrap_interval(values);
  EXPECT_NEAR(interval.low, 0.5 - 0.01789, 0.001);
  EXPECT_NEAR(interval.high, 0.5 + 0.01789, 0.001);
}

TEST(Bootstrap, IsTheSameForTheSameSeed) {
  const Values values = {0.1, 0.5, 0.9, 0.2, 0.4};
  EXPECT_EQ(bootstrap_interval(values).low, bootstrap_interval(values).low);
  EXPECT_NE(bootstrap_interval(values, 0.95, {.n_draws = 99, .seed = 1}).low,
            bootstrap_interval(values, 0.95, {.n_draws = 99, .seed = 2}).low);
}

// The resampled sum is Binomial(20, 1/20): below 5 with 0.9974, below 6 with 0.9997. Half the ties below: bias 0.1186;
// acceleration 0.9 / (6 sqrt(0.95)) = 0.1539. The upper end is Phi(0.1186 + 2.0786 / (1 - 0.1539 * 2.0786)) = 0.99925
// of them, 5 of 20; without acceleration 0.986, 4 of 20.
TEST(Bootstrap, OfOneHitInTwentyIsCorrectedForItsSkew) {
  Values values(20, 0.0);
  values[7] = 1;
  const auto interval = bootstrap_interval(values, 0.95, {.n_draws = 100'000});
  EXPECT_EQ(interval.low, 0);
  EXPECT_DOUBLE_EQ(interval.high, 0.25);
}

// Seed 1234567 begins 0x599ED017FB08FC85, 0x2C73F08458540FA5, 0x883EBCE5A3F27C77. Of two values the first bit of either
// half chooses: means 1/2, 0, 1, between which the ends lie linearly.
TEST(Bootstrap, QuantilesLieBetweenTheDraws) {
  const auto interval = bootstrap_interval(Values{0, 1}, 0.95, {.n_draws = 3, .seed = 1234567});
  EXPECT_NEAR(interval.low, 0.025, 1e-12);
  EXPECT_NEAR(interval.high, 0.975, 1e-12);
}

// Of three values 0xFB08FC85, 0x599ED017 and 0x58540FA5 of 2^32 choose 2, 1 and 1; 0x2C73F084 is left over.
TEST(Bootstrap, OddNumbersLeaveTheLastHighHalf) {
  EXPECT_DOUBLE_EQ(bootstrap_interval(Values{0, 1, 5}, 0.95, {.n_draws = 1, .seed = 1234567}).low, 7.0 / 3);
}

TEST(Bootstrap, OfTwentyComparisonsOfGsm8kTakesASecond) {
  SplitMix64 random(1);
  Values values(1319);
  for (auto& value : values) value = static_cast<double>(random.next() >> 40) / (1 << 24) - 0.5;
  const double seconds = test::processor_seconds([&] {
    for (uint64_t i = 0; i < 20; ++i) bootstrap_interval(values, 0.95, {.n_draws = 10'000, .seed = i});
  });
  RecordProperty("seconds", std::to_string(seconds));
  EXPECT_LT(seconds, 4);
}

TEST(ScoreInterval, IsWilsonsForRightAndWrong) {
  const auto wilson = wilson_interval(2, 3), found = score_interval(Values{1, 0, 1});
  EXPECT_EQ(found.low, wilson.low);
  EXPECT_EQ(found.high, wilson.high);
  const Values graded = {1, 0.5, 0};
  EXPECT_EQ(score_interval(graded).low, bootstrap_interval(graded).low);
}

TEST(Median, IsTheMiddleOrBetween) {
  EXPECT_EQ(median({9, 1, 4}), 4);
  EXPECT_EQ(median({9, 1, 4, 5}), 4.5);
  EXPECT_THROW(median({}), Error);
}

// R: quantile(x, n / 4), its default type 7.
TEST(Quartile, IsInterpolatedBetweenSortedValues) {
  EXPECT_EQ(quartile({5, 1, 3, 2, 4}, 1), 2);
  EXPECT_EQ(quartile({5, 1, 3, 2, 4}, 3), 4);
  EXPECT_EQ(quartile({4, 2, 1, 3}, 1), 1.75);
  EXPECT_EQ(quartile({4, 2, 1, 3}, 2), 2.5);
  EXPECT_EQ(quartile({4, 2, 1, 3}, 3), 3.25);
  EXPECT_EQ(quartile({7}, 3), 7);
  EXPECT_THROW(quartile({}, 1), Error);
  EXPECT_THROW(quartile({1}, 4), Error);
}

}  // namespace
}  // namespace kvc
