// Verdicts on made-up numbers: what lies on either side of a bound, on it, and across it.
#include "check/check_verdict.h"

#include <gtest/gtest.h>

#include <limits>

#include "kvc/check.h"
#include "support/check_settings.h"
#include "support/message_of.h"
#include "support/temp_folder.h"

namespace kvc {
namespace {

using enum Level;

constexpr Bounds kBounds{0.01, 0.2};

TEST(CheckVerdict, AnIntervalOnOneSideDecides) {
  EXPECT_EQ(levels_of({0, 0.01}, kBounds), (Levels{unchanged, unchanged}));  // the bound is still unchanged
  EXPECT_EQ(levels_of({0.0101, 0.1999}, kBounds), (Levels{small_loss, small_loss}));
  EXPECT_EQ(levels_of({0.2, 9}, kBounds), (Levels{breaks, breaks}));  // and this one breaks
}

TEST(CheckVerdict, AnIntervalAcrossABoundLeavesItOpen) {
  EXPECT_EQ(levels_of({0.01, 0.0101}, kBounds), (Levels{unchanged, small_loss}));
  EXPECT_EQ(levels_of({0.19, 0.2}, kBounds), (Levels{small_loss, breaks}));
  EXPECT_EQ(levels_of({0, 1}, kBounds), (Levels{unchanged, breaks}));
}

TEST(CheckVerdict, AHalvedIntervalNeedsFourTimesTheTokens) {
  const Bounds bounds{0.01, 0.2};
  EXPECT_NEAR(times_needed({0.004, 0.012}, 0.008, bounds), 4, 1e-9);      // 0.004 above it, the bound is 0.002 away
  EXPECT_NEAR(times_needed({0.005, 0.024}, 0.012, bounds), 12.25, 1e-9);  // the lower half is wider than the distance
  EXPECT_NEAR(times_needed({0.0, 0.4}, 0.11, bounds), 10.3827, 1e-3);     // both bounds, the farther decides
  EXPECT_EQ(times_needed({0.02, 0.1}, 0.05, bounds), 1);
  EXPECT_EQ(times_needed({0.005, 0.02}, 0.01, bounds), std::numeric_limits<double>::infinity());
}

// Few windows: what they do not show is not said.
TEST(CheckVerdict, OfAFigureThatCannotShowAbsenceTheLowerEndCounts) {
  EXPECT_EQ(at_least({-0.1, 0.3}, 0, {0, 0.2}), (Levels{unchanged, unchanged}));
  EXPECT_EQ(at_least({0.05, 0.9}, 0.35, {0, 0.2}), (Levels{small_loss, breaks}));
  EXPECT_EQ(at_least({0.2, 0.9}, 0.5, {0, 0.2}), (Levels{breaks, breaks}));
}

// 7 of 15 questions lost: Tango's interval is 17 to 70 points.
TEST(CheckVerdict, ALossInQuestionsCountsOnceItIsShown) {
  EXPECT_EQ(once_shown({0.17, 0.7}, 0.47, {0, 0.2}), (Levels{breaks, breaks}));
  EXPECT_EQ(once_shown({0.01, 0.4}, 0.15, {0, 0.2}), (Levels{small_loss, small_loss}));
  EXPECT_EQ(once_shown({-0.1, 0.6}, 0.25, {0, 0.2}), (Levels{unchanged, breaks}));
  EXPECT_EQ(once_shown({-0.1, 0.1}, 0, {0, 0.2}), (Levels{unchanged, unchanged}));
}

TEST(CheckVerdict, AFigureThatRepeatsAnotherCountsWithItsWholeInterval) {
  EXPECT_EQ(shown({0.02, 0.5}, {0.03, 0.2}), (Levels{unchanged, unchanged}));
  EXPECT_EQ(shown({0.04, 0.5}, {0.03, 0.2}), (Levels{small_loss, small_loss}));
  EXPECT_EQ(shown({0.2, 0.5}, {0.03, 0.2}), (Levels{breaks, breaks}));
}

TEST(CheckVerdict, TheWorseFigureCounts) {
  EXPECT_EQ(worse_of({unchanged, unchanged}, {unchanged, small_loss}), (Levels{unchanged, small_loss}));
  EXPECT_EQ(worse_of({unchanged, breaks}, {small_loss, small_loss}), (Levels{small_loss, breaks}));
  EXPECT_EQ(worse_of({breaks, breaks}, {unchanged, breaks}), (Levels{breaks, breaks}));
}

TEST(CheckVerdict, SaysWhatItLeavesOpen) {
  EXPECT_EQ(to_string({unchanged, unchanged}), "unchanged");
  EXPECT_EQ(to_string({small_loss, small_loss}), "small loss");
  EXPECT_EQ(to_string({breaks, breaks}), "breaks");
  EXPECT_EQ(to_string({unchanged, small_loss}), "undecided: unchanged or small loss");
  EXPECT_EQ(to_string({small_loss, breaks}), "undecided: small loss or breaks");
  EXPECT_EQ(to_string({unchanged, breaks}), "undecided");
}

class CheckFile : public testing::Test {
 protected:
  std::string message(const std::string& from, const std::string& to) {
    auto text = test::kCheckSettings;
    EXPECT_NE(text.find(from), std::string::npos) << from;
    const auto file = folder_.write("c.yaml", text.replace(text.find(from), from.size(), to));
    return folder_.relative(test::message_of([&] { load_check_settings(file); }));
  }
  test::TempFolder folder_;
};

TEST_F(CheckFile, BoundsAreSharesThatGrowWithTheLoss) {
  const auto settings = load_check_settings(folder_.write("c.yaml", test::kCheckSettings));
  EXPECT_DOUBLE_EQ(settings.top1.unchanged, 0.03);
  EXPECT_DOUBLE_EQ(settings.top1.breaks, 0.2);
  EXPECT_DOUBLE_EQ(settings.passkey.breaks, 0.2);
  EXPECT_EQ(settings.kl.breaks, 0.2);
  EXPECT_EQ(settings.quick_limit, 5);
  EXPECT_FALSE(settings.quick_context.has_value());
}

TEST_F(CheckFile, WhatIsWrongIsNamedWithItsPlace) {
  EXPECT_EQ(message("{unchanged: 0.01, breaks: 0.2}", "{unchanged: 0.2, breaks: 0.2}"),
            "c.yaml:7:9: error: check.bounds.kl: unchanged must be the stricter bound");
  EXPECT_EQ(message("{unchanged: 97, breaks: 80}", "{unchanged: 80, breaks: 97}"),
            "c.yaml:8:11: error: check.bounds.top1: unchanged must be the stricter bound");
  EXPECT_EQ(message("unchanged: 97", "unchanged: 197").find("c.yaml:8:23: error: check.bounds.top1.unchanged is"), 0u);
  EXPECT_EQ(message("  outlier_channel: 6\n", "").find("c.yaml:3:3: error: missing key 'outlier_channel'"), 0u);
  EXPECT_EQ(message("lengths: 2", "lengths: 0").find("c.yaml:4:12: error: check.lengths is '0'"), 0u);
}

}  // namespace
}  // namespace kvc
