// The time left, against the truth of made runs whose every token's price is known.
#include "run/work_estimate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

namespace kvc {
namespace {

// What a made machine takes: seconds of a token, and more for each token that it attends to.
struct Price {
  double prefill = 1e-3, prefill_context = 2e-7;
  std::vector<double> encode, decode, decode_context;  // by compressor
};

struct MadePrompt {
  size_t task;
  double n_tokens, n_reused;
  std::vector<int> compressors;
  int64_t answer;  // tokens that each gives
  int64_t limit;   // that the task allows
};

// One prompt behind the other, its answers in lock step, everything told as a worker does; how far the time left was
// from the truth, as the larger of the two over the smaller, at each share of the time.
struct Trace {
  Price price;
  std::vector<MadePrompt> prompts;
  double overhead = 1.2;  // of the clock, over what is measured
  double guess = 1;       // of prompts' lengths before they are encoded, over the truth

  double prefill_of(const MadePrompt& p) const {
    const double n = p.n_tokens - p.n_reused;
    return n * (price.prefill + price.prefill_context * (p.n_tokens - n / 2));
  }
  double step_of(const MadePrompt& p, int c, int64_t step) const {
    const auto i = static_cast<size_t>(c);
    return price.decode[i] + price.decode_context[i] * (p.n_tokens + static_cast<double>(step));
  }
  double encode_of(const MadePrompt& p, int c) const { return price.encode[static_cast<size_t>(c)] * p.n_tokens; }

  WorkEstimate::Prompt work(const MadePrompt& p, double scale) const {
    return {p.task, scale * p.n_tokens, scale * (p.n_tokens - p.n_reused), 1, -1, static_cast<double>(p.limit)};
  }

  double seconds_in_all() const {
    double all = 0;
    for (const auto& p : prompts) {
      all += prefill_of(p);
      for (const int c : p.compressors) {
        all += encode_of(p, c);
        for (int64_t step = 0; step < p.answer; ++step) all += step_of(p, c, step);
      }
    }
    return overhead * all;
  }

  // At a tenth, a quarter and half of the time.
  std::vector<double> wrong() const {
    WorkEstimate estimate;
    for (const auto& p : prompts) estimate.plan(work(p, guess), p.compressors);
    const double all = seconds_in_all();
    double now = 0;
    std::vector<double> found, shares{0.1, 0.25, 0.5};
    const auto look = [&] {
      while (found.size() < shares.size() && now >= shares[found.size()] * all) {
        const double left = estimate.seconds_left(now).value_or(0), truth = all - now;
        found.push_back(std::max(left, truth) / std::max(1e-9, std::min(left, truth)));
      }
    };
    int64_t job = 0;
    for (const auto& p : prompts) {
      estimate.unplan(work(p, guess), p.compressors);
      estimate.begin(++job, work(p, 1), p.compressors);
      for (const double share : {0.25, 0.5, 0.75, 1.0}) {
        now += overhead * prefill_of(p) / 4;
        estimate.prefilled(job, share, p.n_tokens - p.n_reused, share * prefill_of(p));
        look();
      }
      std::vector<double> seconds;
      for (const int c : p.compressors) {
        seconds.push_back(encode_of(p, c));
        estimate.decoded(job, c, 0, seconds.back());
        now += overhead * seconds.back();
      }
      for (int64_t step = 0; step < p.answer; ++step) {
        for (size_t i = 0; i < p.compressors.size(); ++i) {
          const double took = step_of(p, p.compressors[i], step);
          seconds[i] += took, now += overhead * took;
          estimate.decoded(job, p.compressors[i], step + 1, seconds[i]);
        }
        look();
      }
      for (size_t i = 0; i < p.compressors.size(); ++i) {
        estimate.ended(job, p.compressors[i], p.answer, seconds[i], p.answer == p.limit);
      }
      estimate.forget(job);
      look();
    }
    EXPECT_EQ(found.size(), shares.size());
    EXPECT_NEAR(estimate.cost_left().value_or(-1), 0, 1e-6 * all);
    EXPECT_NEAR(estimate.cost_done(), all / overhead, 1e-6 * all);
    return found;
  }
};

void expect_within(const Trace& trace, double factor) {
  for (const double wrong : trace.wrong()) EXPECT_LT(wrong, factor);
}

Price two_compressors() { return {1e-3, 2e-7, {1e-4, 1e-4}, {2e-2, 2e-2}, {1e-6, 1e-6}}; }

TEST(WorkEstimate, LongPromptsThatComeLastAreCounted) {
  Trace trace{two_compressors(), {}};
  for (int i = 0; i < 40; ++i) trace.prompts.push_back({0, 100.0 + i, 0, {0, 1}, 20, 32});
  for (int i = 0; i < 8; ++i) trace.prompts.push_back({1, 4000.0 + 100 * i, 0, {0, 1}, 20, 32});
  expect_within(trace, 1.5);
}

// One of two: what it takes is known from the first prompt on, though most of its work comes last.
TEST(WorkEstimate, ASlowCompressorThatComesLastIsCountedByItsOwnRate) {
  auto price = two_compressors();
  price.decode[1] = 0.2, price.decode_context[1] = 1e-4;
  Trace trace{price, {}};
  trace.prompts.push_back({0, 200, 0, {0, 1}, 20, 32});
  for (int i = 0; i < 40; ++i) trace.prompts.push_back({0, 200.0 + i, 0, {0}, 20, 32});
  for (int i = 0; i < 12; ++i) trace.prompts.push_back({0, 200.0 + i, 0, {1}, 20, 32});
  expect_within(trace, 1.5);
}

// Their limit is ten times their mean.
TEST(WorkEstimate, AnswersOfVariedLengthAreLearntFromThoseThatEnded) {
  Trace trace{two_compressors(), {}};
  for (int i = 0; i < 60; ++i) trace.prompts.push_back({0, 150.0, 0, {0, 1}, 3 + (i * 37) % 50, 256});
  expect_within(trace, 1.5);
}

TEST(WorkEstimate, AnswersThatAllRunIntoTheLimitTakeAllOfIt) {
  Trace trace{two_compressors(), {}};
  for (int i = 0; i < 20; ++i) trace.prompts.push_back({0, 150.0, 0, {0, 1}, 64, 64});
  expect_within(trace, 1.2);
}

TEST(WorkEstimate, OfAPrefixThatPromptsShareOnlyTheFirstPays) {
  Trace trace{two_compressors(), {}};
  trace.prompts.push_back({0, 2000, 0, {0, 1}, 2, 8});
  for (int i = 0; i < 100; ++i) trace.prompts.push_back({0, 2000.0 + i % 7, 1936, {0, 1}, 2, 8});
  expect_within(trace, 1.5);
}

// Most is there already; what is left is one compressor's, and only its own tokens are planned.
TEST(WorkEstimate, AResumedRunCountsWhatIsLeftAlone) {
  Trace trace{two_compressors(), {}};
  for (int i = 0; i < 5; ++i) trace.prompts.push_back({0, 300.0, 0, {1}, 30, 64});
  for (int i = 0; i < 5; ++i) trace.prompts.push_back({2, 900.0, 0, {1}, 30, 64});
  expect_within(trace, 1.5);
}

// What is left is one compressor's cache of 32,768 tokens; prompts of 20 to 60 cost 0.1 s each, whatever their length.
TEST(WorkEstimate, ShortPromptsDoNotMakeALongCacheDear) {
  WorkEstimate estimate;
  estimate.plan({1, 32768, 0, 1, 0, 0}, {0});
  for (int i = 0; i < 20; ++i) {
    const double context = 20 + 2.0 * i;
    estimate.begin(i, {0, context, 64, 1, 10, 0}, {0});
    estimate.prefilled(i, 1, 64, 0.1);
    estimate.decoded(i, 0, 0, 0.1 + 1e-5 * context);
    estimate.ended(i, 0, 10, 0.2, false);
    estimate.forget(i);
  }
  EXPECT_GT(estimate.cost_left().value_or(0), 0.3);
  EXPECT_LT(estimate.cost_left().value_or(0), 40);  // at the short prompts' seconds a token it were 82
}

// The model computes whole rows: more tokens than the prompt has. A line over nearly no context says nothing.
TEST(WorkEstimate, PromptsShorterThanTheRowsThatAreComputedHaveNoSlope) {
  WorkEstimate estimate;
  for (int i = 0; i < 20; ++i) {
    const double context = 32 + i % 3;
    estimate.plan({0, context, 64, 2, 20, 0}, {0});
    estimate.plan({1, 300, 320, 8, 200, 0}, {0});
    estimate.begin(i, {0, context, 64, 2, 20, 0}, {0});
    estimate.prefilled(i, 1, 64, 0.1 + 0.01 * (i % 2));
    estimate.unplan({0, context, 64, 2, 20, 0}, {0});
    estimate.decoded(i, 0, 0, 0.01);
    estimate.ended(i, 0, 20, 0.21, false);
    estimate.forget(i);
  }
  // 20 prompts of 320 tokens, of 8 x 300 to encode and of 200 to read, at the same seconds each
  EXPECT_NEAR(estimate.cost_left().value_or(0), 20 * (0.105 * 5 + 0.01 * 2400 / 66 + 0.2 * 10), 0.2 * 50);
}

TEST(WorkEstimate, LengthsThatWereGuessedWrongArePutRight) {
  Trace trace{two_compressors(), {}};
  trace.guess = 1.25;
  for (int i = 0; i < 30; ++i) trace.prompts.push_back({0, 800.0, 0, {0, 1}, 10, 16});
  expect_within(trace, 1.5);
}

TEST(WorkEstimate, NothingIsSaidBeforeAnythingWasMeasured) {
  WorkEstimate estimate;
  estimate.plan({0, 100, 100, 1, -1, 10}, {0});
  EXPECT_FALSE(estimate.seconds_left(5));
  estimate.begin(7, {0, 100, 100, 1, -1, 10}, {0});
  estimate.decoded(8, 0, 3, 1);  // of no job that was given
  EXPECT_FALSE(estimate.seconds_left(5));
}

// Four answers, of which one still goes on: by hand, S = 3/4 from 2 on, 1/2 from 4 on, and behind 6 tokens nothing is
// known but that 2 answers in 16 tokens ended.
TEST(AnswerLengths, AreAKaplanMeierCurveWithATail) {
  AnswerLengths lengths;
  EXPECT_DOUBLE_EQ(lengths.expected_more(0, 32), 0.7 * 32);  // right by half where it is from half to all of it
  lengths.ended(2), lengths.ended(4), lengths.cut(4), lengths.cut(6);
  const double tail = 0.5 * (1 - std::exp(-(100.0 - 6) * 2 / 16)) / (2.0 / 16);
  EXPECT_NEAR(lengths.expected_more(0, 7), 2 + 0.75 * 2 + 0.5 * 2 + 0.5 * 0.7, 1e-9);
  EXPECT_NEAR(lengths.expected_more(0, 100), 2 + 0.75 * 2 + 0.5 * 2 + tail, 1e-9);
  EXPECT_NEAR(lengths.expected_more(0, 3), 2 + 0.75, 1e-9);
  EXPECT_EQ(lengths.expected_more(40, 32), 0);
  AnswerLengths all_ended;
  for (const int64_t n : {1, 2, 6}) all_ended.ended(n);
  EXPECT_NEAR(all_ended.expected_more(0, 100), 3, 1e-9);
  EXPECT_NEAR(all_ended.expected_more(2, 100), 4, 1e-9);
}

// Steps of one sequence first, then of many: each token of them costs a third.
TEST(TokenRate, WhatIsLearntAnewFollowsTheLastThird) {
  TokenRate anew, all;
  for (int i = 0; i < 100; ++i) anew.add_anew(1, 500, 0.3), all.add(1, 500, 0.3);
  for (int i = 0; i < 400; ++i) anew.add_anew(1, 500, 0.1), all.add(1, 500, 0.1);
  EXPECT_NEAR(all.seconds(1, 500), 0.14, 1e-3);
  EXPECT_LT(anew.seconds(1, 500), 0.115);
}

TEST(TokenRate, FollowsTheContextAsFarAsItsSpreadIsSeen) {
  TokenRate rate;
  for (const double context : {100.0, 1000.0, 2000.0}) rate.add(100, context, 100 * (1e-3 + 1e-6 * context));
  EXPECT_NEAR(rate.seconds(1, 4000), 5e-3, 1e-3);
  TokenRate noisy;  // contexts alike, times not: no line is drawn through that
  for (const double context : {100.0, 101.0}) noisy.add(100, context, 0.1 + (context - 100));
  EXPECT_LT(noisy.seconds(1, 1000), 10 * noisy.seconds(1, 100));
}

}  // namespace
}  // namespace kvc
