// The time left: tokens that are left at measured rates, against sums worked out by hand.
#include "run/work_estimate.h"

#include <gtest/gtest.h>

namespace kvc {
namespace {

constexpr int kPrefill = WorkEstimate::kPrefill;
constexpr int kFast = 0, kSlow = 1;

WorkEstimate::Prompt answered(size_t task, double n_tokens, double limit) {
  return {.task = task, .context = n_tokens, .computed = n_tokens, .limit = limit};
}

// A prompt of 100 tokens and what two compressors made of it: 0.01 s per prompt token, 0.001 s to encode one, 0.1 s and
// 0.5 s per new one.
void measure_one(WorkEstimate& estimate, const WorkEstimate::Prompt& prompt, double n_new) {
  estimate.measured(prompt, kPrefill, 100, 100, 1);
  for (const auto& [compressor, rate] : {std::pair(kFast, 0.1), std::pair(kSlow, 0.5)}) {
    estimate.encoded(prompt, compressor, 0.1);
    estimate.measured(prompt, compressor, n_new, n_new, rate * n_new);
  }
}

TEST(WorkEstimate, WhatIsPlannedCostsItsTokensAtMeasuredRates) {
  WorkEstimate estimate;
  const auto prompt = answered(0, 100, 20);
  for (int i = 0; i < 3; ++i) estimate.plan(prompt, {kFast, kSlow});
  EXPECT_EQ(estimate.planned().tokens, 3 * (100 + 2 * 20));
  EXPECT_FALSE(estimate.seconds_left(estimate.planned(), 5)) << "nothing was measured";
  measure_one(estimate, prompt, 20);
  EXPECT_NEAR(estimate.planned().seconds, 3 * (1 + 2 * 0.1 + 20 * 0.1 + 20 * 0.5), 1e-9);
  EXPECT_EQ(estimate.tokens_done(), 100 + 2 * 20);
  estimate.plan(prompt, {kSlow}, -1);
  EXPECT_NEAR(estimate.planned().seconds, 2 * 1 + 3 * 0.1 + 2 * 0.1 + 3 * 20 * 0.1 + 2 * 20 * 0.5, 1e-9);
}

// Until the first has ended an answer is expected to take its limit, then the mean of those that have.
TEST(WorkEstimate, AnAnswerIsExpectedToGetTheMeanSoFar) {
  WorkEstimate estimate;
  const auto prompt = answered(0, 100, 64);
  EXPECT_EQ(estimate.left_of(prompt, kFast).tokens, 64);
  EXPECT_EQ(WorkEstimate(0.75).left_of(prompt, kFast).tokens, 48);
  estimate.answered(prompt, kFast, 8), estimate.answered(prompt, kSlow, 16);
  EXPECT_EQ(estimate.left_of(prompt, kFast).tokens, 12);
  EXPECT_EQ(estimate.left_of(prompt, kFast, 5).tokens, 7);
  EXPECT_EQ(estimate.left_of(prompt, kFast, 40).tokens, 10) << "longer than the mean: a quarter more";
  EXPECT_EQ(estimate.left_of(prompt, kFast, 62).tokens, 2) << "but no more than the limit";
  for (int i = 0; i < 3; ++i) estimate.answered(prompt, kFast, 8);
  EXPECT_EQ(estimate.left_of(prompt, kFast).tokens, 8) << "four of its own";
  EXPECT_EQ(estimate.left_of(prompt, kSlow).tokens, (4 * 8 + 16) / 5.0);
  EXPECT_EQ(estimate.left_of(answered(0, 100, 4), kFast).tokens, 4);
  EXPECT_EQ(estimate.left_of(answered(1, 100, 640), kFast).tokens, 640 * (4 * 8 + 16) / (5 * 64.0));
  EXPECT_EQ(estimate.left_of({.task = 0, .context = 100, .forced = 30}, kFast).tokens, 30) << "read, not written";
}

TEST(WorkEstimate, WhatIsUnderWayCostsTheRest) {
  WorkEstimate estimate;
  const auto prompt = answered(0, 100, 20);
  measure_one(estimate, prompt, 20);
  EXPECT_NEAR(estimate.left_of(prompt, kPrefill, 75).seconds, 0.25, 1e-9);
  EXPECT_NEAR(estimate.left_of(prompt, kSlow, 15, true).seconds, 5 * 0.5, 1e-9);
  EXPECT_EQ(estimate.left_of(prompt, kPrefill, 120).tokens, 0);
}

// A compressor that nothing was measured of takes what all did on average; before any has decoded, what a prompt does.
TEST(WorkEstimate, WithoutARateOfItsOwnACompressorTakesTheOthers) {
  WorkEstimate estimate;
  const auto prompt = answered(0, 100, 20);
  estimate.measured(prompt, kPrefill, 100, 100, 1);
  EXPECT_NEAR(estimate.left_of(prompt, kFast, 0, true).seconds, 20 * 0.01, 1e-9);
  measure_one(estimate, prompt, 20);
  EXPECT_NEAR(estimate.left_of(prompt, 7, 0, true).seconds, 20 * (0.1 + 0.5) / 2, 1e-9);
}

// 0.4 s of the clock passed per measured second, with two processes.
TEST(WorkEstimate, TheClockGoesOnAsItDid) {
  WorkEstimate estimate;
  estimate.measured(answered(0, 1000, 1), kPrefill, 1000, 1000, 999);
  EXPECT_NEAR(*estimate.seconds_left({.tokens = 1, .seconds = 50}, 399.5, 2), 20, 1e-9);
}

// Prompts of 20 to 58 tokens cost 0.1 s each to encode, whatever their length; a cache of 32,768 tokens is not dear.
TEST(WorkEstimate, ShortPromptsDoNotMakeALongCacheDear) {
  WorkEstimate estimate;
  for (int i = 0; i < 20; ++i) {
    const auto prompt = answered(0, 20 + 2.0 * i, 10);
    estimate.encoded(prompt, kFast, 0.1 + 1e-5 * prompt.context);
  }
  const double seconds = estimate.left_of({.context = 32768, .forced = 0}, kFast).seconds;
  EXPECT_GT(seconds, 0.3);
  EXPECT_LT(seconds, 40);  // at the short prompts' seconds per token it would be 84
}

TEST(TokenRate, FollowsTheContextAsFarAsItsSpreadIsSeen) {
  TokenRate rate(200);
  for (const double context : {100.0, 1000.0, 2000.0}) rate.add(100, context, 100 * (1e-3 + 1e-6 * context));
  EXPECT_NEAR(rate.seconds(1, 4000), 5e-3, 1e-3);
  TokenRate noisy(200);  // contexts alike, times not: no line is drawn through that
  for (const double context : {100.0, 101.0}) noisy.add(100, context, 0.1 + (context - 100));
  EXPECT_LT(noisy.seconds(1, 1000), 10 * noisy.seconds(1, 100));
}

}  // namespace
}  // namespace kvc
