#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "attention64.h"

namespace kvc::conformance {
namespace {

const LayerInfo kInfo{.n_heads = 4, .n_kv_heads = 2, .head_dim = 32};

nlohmann::json small(const char* pooling, int64_t kernel) {
  return {{"capacity", 24}, {"window", 8}, {"kernel", kernel}, {"pooling", pooling}};
}

// Positions that KV head h keeps of a prompt of n tokens: capacity 24, window 8; in float64, loop by loop.
std::vector<int64_t> slow_winners(const RandomTokens& x, int64_t h, int64_t n, bool average, int64_t kernel) {
  std::vector<double> votes(static_cast<size_t>(n - 8), 0);
  for (int64_t i = 2 * h; i < 2 * h + 2; ++i) {
    for (int64_t t = n - 8; t < n; ++t) {
      std::vector<int64_t> seen(static_cast<size_t>(t + 1));
      std::iota(seen.begin(), seen.end(), 0);
      const auto p = probabilities64(x.q[i][t], x.k[h], seen, 1 / std::sqrt(32.0));
      for (size_t j = 0; j < votes.size(); ++j) votes[j] += p[j];
    }
  }
  std::vector<std::pair<double, int64_t>> pooled;  // (-votes, position)
  for (int64_t t = 0; t < n - 8; ++t) {
    double sum = 0, highest = 0;
    for (int64_t s = std::max<int64_t>(0, t - kernel / 2); s <= std::min(n - 9, t + kernel / 2); ++s) {
      sum += votes[static_cast<size_t>(s)];
      highest = std::max(highest, votes[static_cast<size_t>(s)]);
    }
    pooled.emplace_back(average ? -sum : -highest, t);
  }
  std::sort(pooled.begin(), pooled.end());
  std::vector<int64_t> kept;
  for (size_t i = 0; i < 16; ++i) kept.push_back(pooled[i].second);
  for (int64_t t = n - 8; t < n; ++t) kept.push_back(t);
  std::sort(kept.begin(), kept.end());
  return kept;
}

TEST(SnapKv, KeepsWhatASlowReferenceKeepsAndDecodesFor300Steps) {
  const RandomTokens x(kInfo, 360);
  for (const char* pooling : {"avg", "max"}) {
    for (const int64_t kernel : {1, 5}) {
      const OpenCache cache("snapkv", small(pooling, kernel), kInfo);
      cache->append(x.part(0, 60));
      std::vector<std::vector<int64_t>> kept;
      for (int64_t h : {0, 1}) kept.push_back(slow_winners(x, h, 60, pooling == std::string("avg"), kernel));
      ASSERT_EQ(positions_of(*cache.cache), kept) << pooling << kernel;
      if (pooling == std::string("max")) continue;
      for (int64_t t = 60; t < 360; ++t) {
        cache->append(x.part(t, 1));
        for (auto& positions : kept) positions.push_back(t);
        ASSERT_EQ(cache->n_encoded_tokens(), 36);
        if (t % 10 == 0 || t == 359) ASSERT_LT(attention_error(*cache.cache, x, t, kept), 2e-6) << t;
      }
      EXPECT_EQ(positions_of(*cache.cache), kept);
    }
  }
}

TEST(SnapKv, APromptWithinCapacityStaysWhole) {
  const RandomTokens x(kInfo, 30);
  const OpenCache cache("snapkv", small("avg", 5), kInfo);
  auto tokens = x.part(0, 24);
  tokens.q = at::Tensor();  // nothing to rank, so queries are not needed
  cache->append(tokens);
  for (int64_t t = 24; t < 30; ++t) cache->append(x.part(t, 1));
  EXPECT_EQ(cache->n_encoded_tokens(), 0);
  EXPECT_TRUE(at::equal(cache->dequantize().k, x.k));
}

// Pooling keeps the neighbours of a peak.
TEST(SnapKv, APeakTakesItsNeighboursAlong) {
  RandomTokens x(kInfo, 100);
  x.q.fill_(1);
  x.k.mul_(1e-3);
  x.k.select(1, 50).fill_(2);
  for (const char* pooling : {"avg", "max"}) {
    const OpenCache cache("snapkv", {{"capacity", 13}, {"window", 8}, {"kernel", 5}, {"pooling", pooling}}, kInfo);
    cache->append(x.part(0, 100));
    const auto kept = positions_of(*cache.cache)[0];
    EXPECT_EQ(std::vector<int64_t>(kept.begin(), kept.begin() + 5), (std::vector<int64_t>{48, 49, 50, 51, 52}));
  }
}

TEST(SnapKv, VotesAreSeenThroughTheModelsSlidingWindow) {
  auto info = kInfo;
  info.sliding_window = 20;
  RandomTokens x(info, 100);
  const OpenCache cache("snapkv", small("max", 1), info);
  cache->append(x.part(0, 100));
  const auto kept = positions_of(*cache.cache)[0];  // only positions 73 ... 99 received anything
  EXPECT_EQ(std::count_if(kept.begin(), kept.end(), [](int64_t t) { return t >= 73; }), 24);
  EXPECT_LT(attention_error(*cache.cache, x, 99,
                            [&] {
                              auto lists = positions_of(*cache.cache);
                              for (auto& list : lists) std::erase_if(list, [](int64_t t) { return t < 80; });
                              return lists;
                            }()),
            2e-6);
}

TEST(SnapKv, PaperBytesAreThoseOfHeldTokens) {
  const Method snapkv("snapkv", small("avg", 5));
  for (const int64_t n_prompt : {1, 8, 23, 24, 25, 100}) {
    for (const int64_t n_new : {0, 1, 20}) {
      const int64_t held = std::min<int64_t>(n_prompt, 24) + n_new;
      EXPECT_EQ(snapkv.compressor().paper_bytes({1, 4, 2, 32}, n_prompt, n_new),
                static_cast<double>(2 * 4 * 32 * held));
    }
  }
}

TEST(SnapKv, RefusesALongPromptWithoutQueries) {
  const RandomTokens x(kInfo, 40);
  const OpenCache cache("snapkv", small("avg", 5), kInfo);
  auto tokens = x.part(0, 40);
  tokens.q = at::Tensor();
  EXPECT_THROW(cache->append(tokens), Error);
}

}  // namespace
}  // namespace kvc::conformance
