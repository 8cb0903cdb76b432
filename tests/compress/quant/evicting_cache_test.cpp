#include "kvc/quant/evicting_cache.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>

namespace kvc {
namespace {

const LayerInfo kInfo{.n_heads = 4, .n_kv_heads = 2, .head_dim = 16};

NewTokens random_tokens(int64_t n, uint64_t seed = 1) {
  auto generator = at::detail::createCPUGenerator(seed);
  const auto normal = [&](int64_t heads) { return at::randn({heads, n, 16}, generator, at::kFloat); };
  return {normal(4), normal(2), normal(2), 0};
}

NewTokens part(const NewTokens& x, int64_t first, int64_t n) {
  return {x.q.narrow(1, first, n), x.k.narrow(1, first, n), x.v.narrow(1, first, n), first};
}

// What an author writes: long keys stay.
class NormCache final : public EvictingCache {
 public:
  NormCache(Ranking ranking, TokenBudget budget, const LayerInfo& info = kInfo)
      : EvictingCache(info, {.method = "norm",
                             .ranking = ranking,
                             .precision = Precision::exact,
                             .reads_queries = false,
                             .interval = 6,
                             .n_queries = 1}),
        budget_(budget) {}

 private:
  TokenBudget budget(int64_t) const override { return budget_; }
  at::Tensor score(const NewTokens& prompt) const override { return prompt.k.norm(2, 2); }
  TokenBudget budget_;
};

// `ranked` longest keys of KV head h of the `n` first tokens between the sinks and the newest, and these.
std::vector<int64_t> longest(const NewTokens& x, int64_t h, int64_t n, const TokenBudget& budget) {
  std::vector<int64_t> kept;
  for (int64_t t = 0; t < n; ++t) kept.push_back(t);
  if (n <= budget.sinks + budget.ranked + budget.recent) return kept;
  const auto norms = x.k[h].norm(2, 1);
  std::stable_sort(kept.begin() + budget.sinks, kept.end() - budget.recent,
                   [&](int64_t a, int64_t b) { return norms[a].item<float>() > norms[b].item<float>(); });
  kept.erase(kept.begin() + budget.sinks + budget.ranked, kept.end() - budget.recent);
  std::sort(kept.begin(), kept.end());
  return kept;
}

std::vector<int64_t> kept_of(const LayerCache& cache, int64_t h) {
  const auto row = cache.positions()[h].contiguous();
  return {row.const_data_ptr<int64_t>(), row.const_data_ptr<int64_t>() + row.numel()};
}

TEST(EvictingCache, RanksThePromptOnceAndHoldsAllThatComesLater) {
  const auto x = random_tokens(60);
  for (const int64_t sinks : {0, 3}) {
    const TokenBudget budget{.sinks = sinks, .ranked = 10, .recent = 5};
    NormCache cache(Ranking::prompt, budget);
    cache.append(part(x, 0, 50));
    for (int64_t t = 50; t < 60; ++t) cache.append(part(x, t, 1));
    for (int64_t h : {0, 1}) {
      auto kept = longest(x, h, 50, budget);
      for (int64_t t = 50; t < 60; ++t) kept.push_back(t);
      EXPECT_EQ(kept_of(cache, h), kept);
      const auto index = at::tensor(kept, at::kLong);
      EXPECT_TRUE(at::equal(cache.dequantize().k[h], x.k[h].index_select(0, index)));
      EXPECT_TRUE(at::equal(cache.dequantize().v[h], x.v[h].index_select(0, index)));
    }
    EXPECT_EQ(cache.n_encoded_tokens(), 60 - (sinks + 15 + 10));
    EXPECT_EQ(cache.footprint().total_bytes(), 2 * (8 * 16 * (sinks + 25) + 4 * (sinks + 15)));
  }
}

// A score of keys alone needs nothing else: the newest token gets its own, the others keep theirs. What is evicted at a
// step was seen by it, so the cache holds one token more than its budget.
TEST(EvictingCache, RanksAgainAtEachStep) {
  const auto x = random_tokens(90);
  const TokenBudget budget{.sinks = 2, .ranked = 9, .recent = 4};
  NormCache cache(Ranking::always, budget);
  cache.append(part(x, 0, 40));
  std::vector<std::vector<int64_t>> kept{longest(x, 0, 40, budget), longest(x, 1, 40, budget)};
  for (int64_t t = 40; t < 90; ++t) {
    cache.append(part(x, t, 1));
    for (int64_t h : {0, 1}) {
      auto& held = kept[static_cast<size_t>(h)];
      if (held.size() > 15) {  // the eviction that the step before left
        const auto norms = x.k[h].norm(2, 1);
        held.erase(std::min_element(held.begin() + 2, held.end() - 4, [&](int64_t a, int64_t b) {
          return norms[a].item<float>() < norms[b].item<float>();
        }));
      }
      held.push_back(t);
      ASSERT_EQ(kept_of(cache, h), held) << t;
    }
  }
  EXPECT_EQ(cache.footprint().total_bytes(), 2 * 16 * (8 * 16 + 4 + 4));
}

TEST(EvictingCache, KeepsItsBudgetOfAPromptAfterEachChunk) {
  const auto x = random_tokens(80);
  const TokenBudget budget{.sinks = 2, .ranked = 9, .recent = 4};
  for (const auto ranking : {Ranking::prompt, Ranking::always, Ranking::at_intervals}) {
    NormCache cache(ranking, budget);
    std::vector<int64_t> held;
    int64_t first = 0;
    for (const int64_t n : {5, 1, 30, 2, 32}) {
      auto chunk = part(x, first, n);
      chunk.kind = first + n == 70 ? AppendKind::last_chunk : AppendKind::prompt_chunk;
      cache.append(chunk);
      for (int64_t t = first; t < first + n; ++t) held.push_back(t);
      first += n;
      const auto norms = x.k[1].norm(2, 1);
      while (held.size() > 15) {
        held.erase(std::min_element(held.begin() + 2, held.end() - 4, [&](int64_t a, int64_t b) {
          return norms[a].item<float>() < norms[b].item<float>();
        }));
      }
      ASSERT_EQ(kept_of(cache, 1), held) << first;
    }
    EXPECT_TRUE(at::equal(cache.dequantize().v[1], x.v[1].index_select(0, at::tensor(held, at::kLong))));
    cache.append(part(x, 70, 1));
    EXPECT_EQ(kept_of(cache, 1).back(), 70);
    EXPECT_EQ(cache.length(), 71);
  }
}

TEST(EvictingCache, APromptWithinTheBudgetStaysWholeAndIsNotRanked) {
  const auto x = random_tokens(20);
  NormCache cache(Ranking::prompt, {.ranked = 15, .recent = 5});
  cache.append(x);
  EXPECT_EQ(cache.n_encoded_tokens(), 0);
  EXPECT_TRUE(at::equal(cache.dequantize().k, x.k));
  EXPECT_EQ(cache.footprint().total_bytes(), 2 * 8 * 16 * 20);  // no positions
}

TEST(EvictingCache, WithoutARankingHoldsSinksAndTheNewest) {
  const auto x = random_tokens(40);
  NormCache cache(Ranking::none, {.sinks = 3, .recent = 6});
  cache.append(part(x, 0, 2));  // fewer than the sinks
  cache.append(part(x, 2, 1));
  for (int64_t t = 3; t < 40; ++t) cache.append(part(x, t, 1));
  EXPECT_EQ(kept_of(cache, 1), (std::vector<int64_t>{0, 1, 2, 34, 35, 36, 37, 38, 39}));
}

// Keys alone rank; what it was asked with is kept for the test.
class IntervalCache final : public EvictingCache {
 public:
  explicit IntervalCache(TokenBudget budget)
      : EvictingCache(kInfo, {.method = "interval",
                              .ranking = Ranking::at_intervals,
                              .precision = Precision::exact,
                              .interval = 6,
                              .n_queries = 3}),
        budget_(budget) {}
  mutable NewTokens asked;

 private:
  TokenBudget budget(int64_t) const override { return budget_; }
  at::Tensor score(const NewTokens& held) const override {
    asked = held;
    return held.k.norm(2, 2);
  }
  TokenBudget budget_;
};

TEST(EvictingCache, RanksWhatIsHeldAfterEachInterval) {
  const auto x = random_tokens(70);
  const TokenBudget budget{.sinks = 2, .ranked = 9, .recent = 4};
  for (const int64_t n_prompt : {5, 30}) {
    IntervalCache cache(budget);
    cache.append(part(x, 0, n_prompt));
    std::vector<std::vector<int64_t>> kept{longest(x, 0, n_prompt, budget), longest(x, 1, n_prompt, budget)};
    for (int64_t t = n_prompt; t < 70; ++t) {
      cache.append(part(x, t, 1));
      for (int64_t h : {0, 1}) {
        auto& held = kept[static_cast<size_t>(h)];
        const auto norms = x.k[h].norm(2, 1);
        while (t > n_prompt && (t - n_prompt) % 6 == 0 && held.size() > 15) {  // what the interval before left
          held.erase(std::min_element(held.begin() + 2, held.end() - 4, [&](int64_t a, int64_t b) {
            return norms[a].item<float>() < norms[b].item<float>();
          }));
        }
        held.push_back(t);
        ASSERT_EQ(kept_of(cache, h), held) << t;
      }
    }
    ASSERT_EQ(cache.asked.q.size(1), 3);  // the last eviction came before the last token but (69 - n_prompt) % 6
    const int64_t end = 70 - 1 - (69 - n_prompt) % 6;
    EXPECT_TRUE(at::equal(cache.asked.q, x.q.narrow(1, end - 3, 3)));
    const auto held = static_cast<int64_t>(kept[0].size());
    EXPECT_EQ(cache.footprint().total_bytes(), 2 * (8 * 16 * held + 4 * 15) + 4 * 4 * 16 * 3);
  }
}

// Tokens that come together are taken one after another.
TEST(EvictingCache, AnIntervalMayEndAmongTokensThatComeTogether) {
  const auto x = random_tokens(60);
  IntervalCache one_by_one({.ranked = 9, .recent = 4}), at_once({.ranked = 9, .recent = 4});
  for (auto* cache : {&one_by_one, &at_once}) cache->append(part(x, 0, 20));
  for (int64_t t = 20; t < 60; ++t) one_by_one.append(part(x, t, 1));
  at_once.append(part(x, 20, 25));
  at_once.append(part(x, 45, 15));
  EXPECT_TRUE(at::equal(one_by_one.positions(), at_once.positions()));
  EXPECT_TRUE(at::equal(one_by_one.dequantize().v, at_once.dequantize().v));
}

// Ranks as the newest query's attention says, at the model's own scale.
class ReceivedCache final : public EvictingCache {
 public:
  explicit ReceivedCache(const LayerInfo& info)
      : EvictingCache(info, {.method = "received", .ranking = Ranking::always, .precision = Precision::exact}) {}
  mutable at::Tensor last;  // what rescore gave

 private:
  TokenBudget budget(int64_t) const override { return {.ranked = 8, .recent = 2}; }
  at::Tensor rescore(const at::Tensor&, const NewTokens& token) const override { return last = received(token.q); }
};

TEST(EvictingCache, AttentionReceivedIsAtTheModelsScale) {
  const auto x = random_tokens(30);
  for (const double scale : {0.25, 0.7, 0.0}) {
    auto info = kInfo;
    info.attention_scale = scale;
    ReceivedCache cache(info);
    cache.append(part(x, 0, 10));
    cache.append(part(x, 10, 1));
    const auto keys = x.k.narrow(1, 0, 11).repeat_interleave(2, 0);
    const auto weights = at::matmul(x.q.narrow(1, 10, 1), keys.transpose(1, 2)).mul(scale).softmax(-1);
    EXPECT_LT((cache.last - weights.view({2, 2, 11}).sum(1)).abs().max().item<double>(), 1e-6) << scale;
  }
  EXPECT_EQ(LayerInfo{.head_dim = 16}.attention_scale, 0.25);
}

TEST(EvictingCache, RefusesTokensThatItCannotRank) {
  const auto x = random_tokens(30);
  for (const auto& q : {at::Tensor(), x.q.narrow(0, 0, 2), x.q.narrow(1, 0, 29), x.q * std::nanf("")}) {
    ReceivedCache cache(kInfo);
    auto tokens = x;
    tokens.q = q;
    EXPECT_THROW(cache.append(tokens), Error);
  }
}

class WrongShape final : public EvictingCache {
 public:
  WrongShape() : EvictingCache(kInfo, {.method = "wrong", .reads_queries = false}) {}

 private:
  TokenBudget budget(int64_t) const override { return {.ranked = 4}; }
  at::Tensor score(const NewTokens& prompt) const override { return at::zeros({4, prompt.k.size(1)}); }
};

TEST(EvictingCache, RefusesScoresOfQueryHeads) { EXPECT_THROW(WrongShape().append(random_tokens(9)), Error); }

}  // namespace
}  // namespace kvc
