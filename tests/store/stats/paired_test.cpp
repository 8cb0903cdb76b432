// Values by hand; statistics_parity.py holds the same functions against scipy and statsmodels.
#include "stats/paired.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kvc/check.h"

namespace kvc {
namespace {

constexpr double kZ2 = 3.841458820694124;  // the square of the normal distribution's 97.5 % quantile

using Values = std::vector<double>;

TEST(McNemar, IsTwiceTheSmallerTail) {
  EXPECT_DOUBLE_EQ(mcnemar_exact(6, 0), 2.0 / 64);
  EXPECT_DOUBLE_EQ(mcnemar_exact(0, 6), 2.0 / 64);
  EXPECT_NEAR(mcnemar_exact(20, 11), 0.1496, 5e-5);
  EXPECT_DOUBLE_EQ(mcnemar_exact(2, 1), 1);  // twice 1/2
  EXPECT_EQ(mcnemar_exact(0, 0), 1);
  EXPECT_EQ(mcnemar_exact(7, 7), 1);
  EXPECT_THROW(mcnemar_exact(-1, 3), Error);
}

TEST(Tango, WithoutDiscordantPairsIsTheClosedForm) {
  for (const int64_t n : {1, 10, 1319}) {
    const auto interval = tango_interval({n, 0, 0});
    EXPECT_NEAR(interval.high, kZ2 / (static_cast<double>(n) + kZ2), 1e-12);
    EXPECT_NEAR(interval.low, -interval.high, 1e-12);
  }
}

TEST(Tango, ReachesTheEndsAndMirrors) {
  const auto all_fell = tango_interval({10, 10, 0});
  EXPECT_EQ(all_fell.low, -1);
  EXPECT_GT(all_fell.high, -1);
  const auto some = tango_interval({50, 12, 2}), mirrored = tango_interval({50, 2, 12});
  EXPECT_NEAR(some.low, -mirrored.high, 1e-12);
  EXPECT_NEAR(some.high, -mirrored.low, 1e-12);
  EXPECT_LT(some.low, -0.2);
  EXPECT_GT(some.high, -0.2);
}

TEST(SignFlips, OfThreeThatFellAreOneInFour) {
  const auto test = sign_flip_test(Values{-1, 0, -2, -3, 0});
  EXPECT_TRUE(test.is_exact);
  EXPECT_EQ(test.p, 0.25);
  EXPECT_EQ(sign_flip_test(Values{1, -1}).p, 1);
  EXPECT_EQ(sign_flip_test(Values{0, 0}).p, 1);
  EXPECT_EQ(sign_flip_test(Values{}).p, 1);
}

TEST(SignFlips, OfOnesAreMcNemars) {
  Values flips(9, 1.0);
  flips.insert(flips.end(), 3, -1.0);
  EXPECT_NEAR(sign_flip_test(flips).p, mcnemar_exact(3, 9), 1e-12);
  flips.insert(flips.end(), 11, 1.0);  // 23: drawn
  const auto drawn = sign_flip_test(flips);
  EXPECT_FALSE(drawn.is_exact);
  EXPECT_NEAR(drawn.p, mcnemar_exact(3, 20), 5 * std::sqrt(mcnemar_exact(3, 20) / 10'000) + 1e-4);
}

TEST(SignFlips, AreAllCountedUpToTwenty) {  // zeros have no sign
  Values differences(20, 0.5);
  differences.push_back(0);
  EXPECT_TRUE(sign_flip_test(differences).is_exact);
  EXPECT_DOUBLE_EQ(sign_flip_test(differences).p, 2.0 / (1 << 20));
  differences.push_back(0.5);
  EXPECT_FALSE(sign_flip_test(differences).is_exact);
}

TEST(SignFlips, AreEqualWhereOnlyRoundingTellsThemApart) {  // 0.1 + 0.2 is not 0.3 in binary
  EXPECT_EQ(sign_flip_test(Values{0.1, 0.2, -0.3}).p, 1);
  EXPECT_EQ(sign_flip_test(Values{0.3, 0.1, 0.2, -0.6}).p, 1);
}

TEST(SignFlips, NeverGiveZero) {
  EXPECT_DOUBLE_EQ(sign_flip_test(Values(200, 0.5)).p, 1.0 / 10'001);
  EXPECT_DOUBLE_EQ(sign_flip_test(Values(200, 0.5), {.n_draws = 99, .seed = 4}).p, 0.01);
}

TEST(Tost, OfTwoPairsIsCauchys) {  // mean 0, standard error 0.1, one degree of freedom: P(T > 1) = 1/4
  const auto tost = tost_t(Values{0.1, -0.1}, 0.1);
  EXPECT_NEAR(tost.p_no_worse, 0.25, 1e-12);
  EXPECT_NEAR(tost.p_no_better, 0.25, 1e-12);
}

TEST(Tost, IsCertainWithoutSpreadAndUnknownForOnePair) {
  EXPECT_EQ(tost_t(Values{0, 0, 0}, 0.01).p(), 0);
  EXPECT_EQ(tost_t(Values{-0.5, -0.5}, 0.01).p_no_worse, 1);
  EXPECT_EQ(tost_t(Values{-0.5, -0.5}, 0.01).p_no_better, 0);
  EXPECT_EQ(tost_t(Values{-0.25, -0.25}, 0.25).p_no_worse, 1);  // worse by the margin or more
  EXPECT_EQ(tost_t(Values{0.25, 0.25}, 0.25).p_no_better, 1);
  EXPECT_EQ(tost_t(Values{0.0}, 0.01).p(), 1);
  EXPECT_THROW(tost_t(Values{0.0}, 0), Error);
}

TEST(Tost, OfEqualAnswersNeedsManyOfThem) {  // no discordant pair: z^2 = n m / (1 - m) at the margin m
  const double z = std::sqrt(100 * 0.02 / 0.98);
  const auto few = tost_binary({100, 0, 0}, 0.02);
  EXPECT_NEAR(few.p_no_worse, 0.5 * std::erfc(z / std::sqrt(2)), 1e-12);
  EXPECT_NEAR(few.p_no_better, few.p_no_worse, 1e-12);
  EXPECT_GT(few.p(), 0.05);
  EXPECT_LT(tost_binary({200, 0, 0}, 0.02).p(), 0.05);
}

TEST(Tost, AgreesWithTheInterval) {  // p_no_worse = 5 % at the lower end of the 90 % interval
  const PairedCounts counts{400, 13, 9};
  EXPECT_NEAR(tost_binary(counts, -tango_interval(counts, 0.9).low).p_no_worse, 0.05, 1e-9);
  EXPECT_NEAR(tost_binary(counts, tango_interval(counts, 0.9).high).p_no_better, 0.05, 1e-9);
}

TEST(Holm, AdjustsByRankAndNeverReorders) {
  const auto adjusted = holm(Values{0.01, 0.04, 0.03, 0.005});
  const Values expected = {0.03, 0.06, 0.06, 0.02};
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(adjusted[i], expected[i], 1e-15);
  EXPECT_EQ(holm(Values{0.7, 0.8}), (Values{1, 1}));
  EXPECT_TRUE(holm(Values{}).empty());
}

}  // namespace
}  // namespace kvc
