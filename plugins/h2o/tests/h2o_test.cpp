#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "attention64.h"
#include "kvc/quant/attention_mass.h"

namespace kvc::conformance {
namespace {

const LayerInfo kInfo{.n_heads = 4, .n_kv_heads = 2, .head_dim = 32};

// The method with a pencil: one list of positions and one score for each, in float64, for each KV head.
struct SlowH2o {
  SlowH2o(const RandomTokens& x, int64_t n_prompt, int64_t heavy, int64_t recent, int64_t sliding_window = 0)
      : x(x), heavy(heavy), recent(recent), sliding_window(sliding_window), kept(2), scores(2) {
    for (size_t h = 0; h < 2; ++h) {
      kept[h].resize(static_cast<size_t>(n_prompt));
      std::iota(kept[h].begin(), kept[h].end(), 0);
      scores[h].assign(static_cast<size_t>(n_prompt), 0);
      for (int64_t t = 0; t < n_prompt; ++t) receive(h, t);
      evict(h);
    }
  }

  void step(int64_t t) {
    for (size_t h = 0; h < 2; ++h) {
      evict(h);
      kept[h].push_back(t);
      scores[h].push_back(0);
      receive(h, t);
    }
  }

  // The next n tokens of a prompt, which attend to what is held and to one another.
  void chunk(int64_t first, int64_t n) {
    heavy = static_cast<int64_t>(0.3 * static_cast<double>(first + n));
    recent = std::max<int64_t>(4, static_cast<int64_t>(0.2 * static_cast<double>(first + n)));
    for (size_t h = 0; h < 2; ++h) {
      for (int64_t t = first; t < first + n; ++t) kept[h].push_back(t), scores[h].push_back(0);
      for (int64_t t = first; t < first + n; ++t) receive(h, t);
      evict(h);
    }
  }

  // What the two query heads of KV head h give at position t to what they see.
  void receive(size_t h, int64_t t) {
    std::vector<int64_t> seen;
    std::vector<size_t> slots;
    for (size_t i = 0; i < kept[h].size(); ++i) {
      if (kept[h][i] > t || (sliding_window > 0 && kept[h][i] <= t - sliding_window)) continue;
      seen.push_back(kept[h][i]);
      slots.push_back(i);
    }
    for (int64_t i = 2 * static_cast<int64_t>(h); i < 2 * static_cast<int64_t>(h) + 2; ++i) {
      const auto p = probabilities64(x.q[i][t], x.k[static_cast<int64_t>(h)], seen, 1 / std::sqrt(32.0));
      for (size_t n = 0; n < p.size(); ++n) scores[h][slots[n]] += p[n];
    }
  }

  void evict(size_t h) {
    while (static_cast<int64_t>(kept[h].size()) > heavy + recent) {
      const auto end = scores[h].end() - recent;
      const auto least = std::min_element(scores[h].begin(), end) - scores[h].begin();
      kept[h].erase(kept[h].begin() + least);
      scores[h].erase(scores[h].begin() + least);
    }
  }

  const RandomTokens& x;
  int64_t heavy, recent, sliding_window;
  std::vector<std::vector<int64_t>> kept;
  std::vector<std::vector<double>> scores;
};

TEST(H2o, KeepsWhatASlowReferenceKeepsFor300Steps) {
  const RandomTokens x(kInfo, 400);
  const OpenCache cache("h2o", {{"heavy_ratio", 0.3}, {"recent_ratio", 0.2}}, kInfo);
  cache->append(x.part(0, 61));
  SlowH2o slow(x, 61, 18, 12);  // int(18.3), int(12.2)
  EXPECT_EQ(positions_of(*cache.cache), slow.kept);
  for (int64_t t = 61; t < 361; ++t) {
    cache->append(x.part(t, 1));
    slow.step(t);
    ASSERT_EQ(positions_of(*cache.cache), slow.kept) << t;
    ASSERT_LT(attention_error(*cache.cache, x, t, slow.kept), 2e-6) << t;
    ASSERT_EQ(cache->n_encoded_tokens(), t + 1 - 31);
  }
}

// Tokens that decoding makes heavy displace those of the prompt: what steps receive must be added up for that. Every
// 13th key lies along a direction that all queries of decoding share.
TEST(H2o, WhatStepsReceiveIsAddedUp) {
  RandomTokens x(kInfo, 361, 4);
  const auto direction = at::ones({32}) * 0.7;
  x.q.narrow(1, 61, 300).add_(direction);
  for (int64_t t = 65; t < 361; t += 13) x.k.select(1, t).add_(direction);
  const OpenCache cache("h2o", {{"heavy_ratio", 0.3}, {"recent_ratio", 0.2}}, kInfo);
  cache->append(x.part(0, 61));
  SlowH2o slow(x, 61, 18, 12);
  for (int64_t t = 61; t < 361; ++t) {
    cache->append(x.part(t, 1));
    slow.step(t);
    ASSERT_EQ(positions_of(*cache.cache), slow.kept) << t;
  }
  for (const auto& kept : slow.kept)
    EXPECT_GE(std::count_if(kept.begin(), kept.begin() + 18, [](int64_t t) { return t >= 61; }), 3);
}

TEST(H2o, APromptInChunksIsEvictedAfterEachByWhatTokensReceived) {
  for (const int64_t window : {0, 9}) {
    auto info = kInfo;
    info.sliding_window = window;
    const RandomTokens x(info, 200, 6);
    const OpenCache cache("h2o", {{"heavy_ratio", 0.3}, {"recent_ratio", 0.2}}, info);
    SlowH2o slow(x, 0, 0, 0, window);
    int64_t first = 0;
    for (const int64_t n : {3, 50, 1, 64, 32}) {
      auto chunk = x.part(first, n);
      chunk.kind = first + n == 150 ? AppendKind::last_chunk : AppendKind::prompt_chunk;
      cache->append(chunk);
      slow.chunk(first, n);
      first += n;
      ASSERT_EQ(positions_of(*cache.cache), slow.kept) << "window " << window << ", " << first << " tokens";
    }
    for (int64_t t = first; t < 200; ++t) {
      cache->append(x.part(t, 1));
      slow.step(t);
      ASSERT_EQ(positions_of(*cache.cache), slow.kept) << "window " << window << ", token " << t;
    }
  }
}

// Nothing is evicted, so that each query has given one to each head: the scores of a head sum to its queries.
TEST(H2o, ScoresOfAHeadSumToItsQueries) {
  const RandomTokens x(kInfo, 64);
  for (int64_t h = 0; h < 2; ++h) {
    const auto mass = attention_mass(x.q, x.k, {.head_dim = 32})[h];
    EXPECT_NEAR(mass.sum().item<double>(), 2 * 64, 1e-3);
    EXPECT_GE(mass[0].item<double>(), mass[63].item<double>());  // the last token is seen by one query only
    EXPECT_LE(mass[63].item<double>(), 2);
  }
}

TEST(H2o, RanksWithinTheModelsSlidingWindow) {
  auto info = kInfo;
  info.sliding_window = 9;
  const RandomTokens x(info, 120, 5);
  const OpenCache cache("h2o", nullptr, info);
  cache->append(x.part(0, 40));
  SlowH2o slow(x, 40, 10, 10, 9);
  EXPECT_EQ(positions_of(*cache.cache), slow.kept);
  for (int64_t t = 40; t < 120; ++t) {
    cache->append(x.part(t, 1));
    slow.step(t);
    ASSERT_EQ(positions_of(*cache.cache), slow.kept) << t;
  }
}

TEST(H2o, ABudgetOfThePromptEvictsNothingOfIt) {
  const RandomTokens x(kInfo, 41);
  const OpenCache cache("h2o", {{"heavy_ratio", 0.5}, {"recent_ratio", 0.5}}, kInfo);
  cache->append(x.part(0, 40));
  EXPECT_EQ(cache->n_encoded_tokens(), 0);
  EXPECT_TRUE(at::equal(cache->dequantize().k, x.k.narrow(1, 0, 40)));
  EXPECT_TRUE(at::equal(cache->dequantize().v, x.v.narrow(1, 0, 40)));
}

// One key that all later queries point at is kept by the head that holds it, and by no other.
TEST(H2o, HeadsKeepTheirOwnHeavyHitters) {
  RandomTokens x(kInfo, 64);
  x.q.fill_(1);
  x.k.mul_(0.01);
  x.k[0][7].fill_(3);
  x.k[1][23].fill_(3);
  const OpenCache cache("h2o", {{"heavy_ratio", 0.02}, {"recent_ratio", 0.1}}, kInfo);
  cache->append(x.part(0, 64));
  const auto kept = positions_of(*cache.cache);
  EXPECT_EQ(kept[0].front(), 7);
  EXPECT_EQ(kept[1].front(), 23);
  EXPECT_EQ(kept[0].size(), 7u);  // int(1.28) heavy, int(6.4) recent
}

TEST(H2o, PaperBytesAreThoseOfTheBudget) {
  const Method h2o("h2o");
  for (const int64_t n_prompt : {1, 4, 5, 16, 99, 400}) {
    for (const int64_t n_new : {0, 1, 2, 20}) {
      const int64_t held = std::min(n_prompt + n_new, n_prompt / 4 + std::max<int64_t>(4, n_prompt / 4));
      EXPECT_EQ(h2o.compressor().paper_bytes({1, 4, 2, 32}, n_prompt, n_new), static_cast<double>(4 * 2 * 32 * held));
    }
  }
}

// GEAR's table 10 keeps 50 % of the prompt: LLaMA2-7B, 900 tokens, nothing generated.
TEST(H2o, HoldsHalfOfThePromptByDefault) {
  EXPECT_EQ(Method("h2o").compressor().paper_bytes({32, 32, 32, 128}, 900, 0), 0.5 * 4 * 32 * 128 * 900);
}

TEST(H2o, RefusesTokensWithoutQueries) {
  const RandomTokens x(kInfo, 8);
  const OpenCache cache("h2o", nullptr, kInfo);
  auto tokens = x.part(0, 8);
  tokens.q = at::Tensor();
  EXPECT_THROW(cache->append(tokens), Error);
  tokens.q = at::full({4, 8, 32}, std::nanf(""));
  EXPECT_THROW(cache->append(tokens), Error);
  tokens.q = x.q.narrow(0, 0, 2);
  EXPECT_THROW(cache->append(tokens), Error);
}

}  // namespace
}  // namespace kvc::conformance
