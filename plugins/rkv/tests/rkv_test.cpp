#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "attention64.h"

namespace kvc::conformance {
namespace {

const LayerInfo kInfo{.n_heads = 4, .n_kv_heads = 2, .head_dim = 32};

nlohmann::json small(double lambda = 0.1, int64_t budget = 40, int64_t interval = 16) {
  return {{"budget", budget}, {"interval", interval}, {"window", 4}, {"lambda", lambda}, {"kernel", 3}};
}

// The method with a pencil: the positions that each KV head holds, in float64, loop by loop.
struct SlowRkv {
  SlowRkv(const RandomTokens& x, int64_t n_prompt, double lambda, int64_t sliding_window = 0)
      : x(x), lambda(lambda), sliding_window(sliding_window), kept(2) {
    for (size_t h = 0; h < 2; ++h) {
      kept[h].resize(static_cast<size_t>(n_prompt));
      std::iota(kept[h].begin(), kept[h].end(), 0);
      evict(h);
    }
  }

  void step(int64_t t) {
    for (size_t h = 0; h < 2; ++h) {
      if (n_since == interval) evict(h);
      kept[h].push_back(t);
    }
    n_since = n_since == interval ? 1 : n_since + 1;
  }

  std::vector<double> key(size_t h, int64_t t) const {
    const auto k = x.k[static_cast<int64_t>(h)][t].to(at::kDouble).contiguous();
    return {k.const_data_ptr<double>(), k.const_data_ptr<double>() + 32};
  }

  static double dot(const std::vector<double>& a, const std::vector<double>& b) {
    double sum = 0;
    for (size_t j = 0; j < a.size(); ++j) sum += a[j] * b[j];
    return sum;
  }

  static std::vector<double> softmax(std::vector<double> z) {
    double sum = 0;
    for (double& y : z) sum += y = std::exp(y);
    for (double& y : z) y /= sum;
    return z;
  }

  std::vector<double> importance(size_t h) const {
    const auto& held = kept[h];
    const size_t n = held.size() - window;
    std::vector<double> mean(n, 0), pooled;
    for (size_t i = n; i < held.size(); ++i) {
      std::vector<double> most(n, -1e300);
      for (size_t t = 0; t < n; ++t) {
        if (sliding_window > 0 && held[t] <= held.back() - sliding_window) continue;
        for (int64_t g = 0; g < 2; ++g) {
          const auto q = x.q[2 * static_cast<int64_t>(h) + g][held[i]].to(at::kDouble).contiguous();
          const std::vector<double> query(q.const_data_ptr<double>(), q.const_data_ptr<double>() + 32);
          most[t] = std::max(most[t], dot(query, key(h, held[t])) / std::sqrt(32.0));
        }
      }
      const auto p = softmax(most);
      for (size_t t = 0; t < n; ++t) mean[t] += p[t] / static_cast<double>(window);
    }
    for (size_t t = 0; t < n; ++t) {
      pooled.push_back(*std::max_element(mean.begin() + (t == 0 ? 0 : t - 1), mean.begin() + std::min(n, t + 2)));
    }
    return pooled;
  }

  std::vector<double> redundancy(size_t h) const {
    const size_t n = kept[h].size();
    std::vector<double> mean(n, 0);
    for (size_t i = 0; i < n; ++i) {
      std::vector<double> cosines(n, 0);
      size_t latest = n;
      for (size_t j = 0; j < n; ++j) {
        if (i == j) continue;
        const auto a = key(h, kept[h][i]), b = key(h, kept[h][j]);
        cosines[j] = dot(a, b) / std::sqrt(dot(a, a) * dot(b, b));
        if (cosines[j] > 0.5) latest = j;
      }
      if (latest < n) cosines[latest] = 0;
      for (size_t j = 0; j < n; ++j) mean[j] += cosines[j] / static_cast<double>(n);
    }
    return softmax(mean);
  }

  void evict(size_t h) {
    auto& held = kept[h];
    if (held.size() <= budget) return;
    const auto important = importance(h), redundant = redundancy(h);
    std::vector<size_t> order(held.size() - window);
    std::iota(order.begin(), order.end(), 0);
    const auto score = [&](size_t t) { return lambda * important[t] - (1 - lambda) * redundant[t]; };
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return score(a) > score(b); });
    std::vector<int64_t> stay(held.end() - static_cast<int64_t>(window), held.end());
    for (size_t i = 0; i < budget - window; ++i) stay.push_back(held[order[i]]);
    std::sort(stay.begin(), stay.end());
    held = stay;
  }

  const RandomTokens& x;
  double lambda;
  int64_t sliding_window;
  static constexpr size_t window = 4, budget = 40;
  static constexpr int64_t interval = 16;
  int64_t n_since = 0;
  std::vector<std::vector<int64_t>> kept;
};

// Of which every third key is much like the one before.
RandomTokens repeating(int64_t n_tokens, uint64_t seed = 1) {
  RandomTokens x({.n_heads = 4, .n_kv_heads = 2, .head_dim = 32}, n_tokens, seed);
  for (int64_t t = 3; t < n_tokens; t += 3) {
    x.k.select(1, t).mul_(0.3).add_(x.k.select(1, t - 1)).copy_(x.k.select(1, t).to(at::kHalf));
  }
  return x;
}

TEST(Rkv, KeepsWhatASlowReferenceKeepsFor200Steps) {
  const auto x = repeating(270);
  for (const int64_t n_prompt : {3, 70}) {
    for (const double lambda : {0.0, 0.1, 0.6, 1.0}) {
      const OpenCache cache("rkv", small(lambda), kInfo);
      cache->append(x.part(0, n_prompt));
      SlowRkv slow(x, n_prompt, lambda);
      ASSERT_EQ(positions_of(*cache.cache), slow.kept) << n_prompt;
      for (int64_t t = n_prompt; t < n_prompt + 200; ++t) {
        cache->append(x.part(t, 1));
        slow.step(t);
        ASSERT_EQ(positions_of(*cache.cache), slow.kept) << n_prompt << " " << lambda << " " << t;
        if (t % 5 == 0) {
          ASSERT_LT(attention_error(*cache.cache, x, t, slow.kept), 2e-6) << t;
        }
        ASSERT_EQ(cache->n_encoded_tokens(), t + 1 - static_cast<int64_t>(slow.kept[0].size()));
      }
    }
  }
}

// A step appends, attends, then evicts: its own query sees all, and the next append finds what it left.
TEST(Rkv, WhatIsHeldGrowsByTheIntervalAndShrinksToTheBudget) {
  const RandomTokens x(kInfo, 200);
  const OpenCache cache("rkv", small(), kInfo);
  cache->append(x.part(0, 30));
  int64_t longest = 0, falls = 0, last = 30;
  for (int64_t t = 30; t < 200; ++t) {
    cache->append(x.part(t, 1));
    const auto kept = positions_of(*cache.cache)[1];
    const auto held = static_cast<int64_t>(kept.size());
    const int64_t n_new = t - 29, since = (n_new - 1) % 16 + 1;
    ASSERT_EQ(held, n_new <= 16 ? 30 + n_new : std::min<int64_t>(30 + n_new - since, 40) + since) << t;
    for (int64_t i = 0; i < 4; ++i) ASSERT_EQ(kept[kept.size() - 1 - static_cast<size_t>(i)], t - i);
    longest = std::max(longest, held), falls += held < last, last = held;
  }
  EXPECT_EQ(longest, 40 + 16);
  EXPECT_EQ(falls, 10);  // after 16, 32, ... 160 new tokens
}

// Of 32 keys four are the same, the others are at right angles to all; the latest of the four stays.
TEST(Rkv, OfSimilarKeysTheLatestStays) {
  RandomTokens x(kInfo, 32);
  x.k.fill_(0);
  for (int64_t t = 0; t < 32; ++t) x.k.select(1, t).select(1, t == 10 || t == 15 || t == 20 ? 5 : t).fill_(1);
  const OpenCache cache("rkv", small(0, 29), kInfo);
  cache->append(x.part(0, 32));
  const auto kept = positions_of(*cache.cache)[0];
  for (const int64_t t : {5, 10, 15}) EXPECT_FALSE(std::binary_search(kept.begin(), kept.end(), t)) << t;
  EXPECT_EQ(kept.size(), 29u);
}

// The oldest key is a little like each other one, below what counts as similar, and these are less like one another: it
// is the most redundant. In the public code each key without partners takes its cosine with the oldest away.
TEST(Rkv, AKeyWithoutPartnersTakesNothingFromTheOldest) {
  RandomTokens x(kInfo, 32);
  x.k.fill_(0);
  x.k.select(2, 31).fill_(0.45);
  x.k.select(1, 0).select(1, 31).fill_(1);
  for (int64_t t = 1; t < 32; ++t) x.k.select(1, t).select(1, t - 1).fill_(0.89);
  const OpenCache cache("rkv", small(0, 31), kInfo);
  cache->append(x.part(0, 32));
  std::vector<int64_t> others(31);
  std::iota(others.begin(), others.end(), 1);
  EXPECT_EQ(positions_of(*cache.cache), (std::vector<std::vector<int64_t>>{others, others}));
}

TEST(Rkv, HoldsTheNewestQueriesAndCountsThem) {
  const RandomTokens x(kInfo, 80);
  const OpenCache cache("rkv", small(), kInfo);
  cache->append(x.part(0, 2));
  EXPECT_EQ(cache->footprint().total_bytes(), 2 * 4 * 32 * 2 + 4 * 2 * 32 * 2);  // two queries so far, no positions
  for (int64_t t = 2; t < 80; ++t) cache->append(x.part(t, 1));
  // evicted after 16, 32, 48 and 64 new tokens, of which the third found more than 40
  EXPECT_EQ(cache->footprint().total_bytes(), 2 * 4 * 32 * (40 + 14) + 2 * 4 * 40 + 4 * 2 * 32 * 4);
}

TEST(Rkv, RanksWithinTheModelsSlidingWindow) {
  auto info = kInfo;
  info.sliding_window = 30;
  const auto x = repeating(160, 5);
  const OpenCache cache("rkv", small(0.9), info);
  cache->append(x.part(0, 60));
  SlowRkv slow(x, 60, 0.9, 30);
  EXPECT_EQ(positions_of(*cache.cache), slow.kept);
  for (int64_t t = 60; t < 160; ++t) {
    cache->append(x.part(t, 1));
    slow.step(t);
    ASSERT_EQ(positions_of(*cache.cache), slow.kept) << t;
    auto seen = slow.kept;
    for (auto& list : seen) std::erase_if(list, [&](int64_t p) { return p <= t - 30; });
    ASSERT_LT(attention_error(*cache.cache, x, t, seen), 2e-6) << t;
  }
}

// A sliding window that hides all that is ranked leaves redundancy alone to say what stays.
TEST(Rkv, AWindowOfFewTokensLeavesNothingImportant) {
  auto info = kInfo;
  info.sliding_window = 3;
  const auto x = repeating(70);
  const OpenCache all("rkv", small(0.5), info), redundant("rkv", small(0), kInfo);
  all->append(x.part(0, 60)), redundant->append(x.part(0, 60));
  EXPECT_EQ(positions_of(*all.cache), positions_of(*redundant.cache));
}

TEST(Rkv, PaperBytesAreThoseOfHeldTokens) {
  const Method rkv("rkv", small());
  const RandomTokens x(kInfo, 200);
  for (const int64_t n_prompt : {1, 39, 40, 41, 90}) {
    const OpenCache cache("rkv", small(), kInfo);
    cache->append(x.part(0, n_prompt));
    for (int64_t n_new = 0; n_new < 70; ++n_new) {
      if (n_new > 0) cache->append(x.part(n_prompt + n_new - 1, 1));
      ASSERT_EQ(rkv.compressor().paper_bytes({1, 4, 2, 32}, n_prompt, n_new),
                static_cast<double>(2 * 4 * 32 * cache->positions().size(1)))
          << n_prompt << " " << n_new;
    }
  }
}

TEST(Rkv, RefusesTokensWithoutQueriesAndBudgetsWithinTheWindow) {
  const RandomTokens x(kInfo, 8);
  for (const int64_t n_before : {0, 4}) {
    const OpenCache cache("rkv", small(), kInfo);
    if (n_before > 0) cache->append(x.part(0, n_before));
    auto tokens = x.part(n_before, 4);
    for (const auto& q : {at::Tensor(), at::full({4, 4, 32}, std::nanf("")), tokens.q.narrow(0, 0, 2)}) {
      tokens.q = q;
      EXPECT_THROW(cache->append(tokens), Error);
    }
  }
  EXPECT_THROW(Method("rkv", {{"budget", 8}}), Error);
  EXPECT_THROW(Method("rkv", {{"kernel", 4}}), Error);
}

}  // namespace
}  // namespace kvc::conformance
