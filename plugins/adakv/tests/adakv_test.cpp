#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "attention64.h"
#include "kvc/probed_parts.h"

namespace kvc::conformance {
namespace {

const LayerInfo kInfo{.n_heads = 4, .n_kv_heads = 2, .head_dim = 32};
constexpr int64_t kWindow = 8;

using Lists = std::vector<std::vector<int64_t>>;

nlohmann::json small(double floor, const char* pooling = "avg", int64_t kernel = 5) {
  return {{"capacity", 24}, {"window", kWindow}, {"floor", floor}, {"kernel", kernel}, {"pooling", pooling}};
}

// What each KV head holds, without the -1 that stand before the tokens of one that holds fewer.
Lists held_by(const LayerCache& cache) {
  auto lists = positions_of(cache);
  for (auto& list : lists) {
    EXPECT_TRUE(std::is_sorted(list.begin(), list.end()));
    list.erase(list.begin(), std::upper_bound(list.begin(), list.end(), -1));
  }
  return lists;
}

// Pooled votes of one KV head for the tokens before the window, in float64, loop by loop.
std::vector<double> slow_votes(const RandomTokens& x, const LayerInfo& info, int64_t h, int64_t n, bool average,
                               int64_t kernel) {
  std::vector<double> votes(static_cast<size_t>(n - kWindow), 0), pooled;
  const int64_t group = info.n_heads / info.n_kv_heads;
  for (int64_t i = group * h; i < group * (h + 1); ++i) {
    for (int64_t t = n - kWindow; t < n; ++t) {
      std::vector<int64_t> seen(static_cast<size_t>(t + 1));
      std::iota(seen.begin(), seen.end(), 0);
      const auto p = probabilities64(x.q[i][t], x.k[h], seen, 1 / std::sqrt(static_cast<double>(info.head_dim)));
      for (size_t j = 0; j < votes.size(); ++j) votes[j] += p[j];
    }
  }
  const auto n_votes = static_cast<int64_t>(votes.size());
  for (int64_t t = 0; t < n_votes; ++t) {
    double sum = 0, highest = 0;
    for (int64_t s = std::max<int64_t>(0, t - kernel / 2); s <= std::min(n_votes - 1, t + kernel / 2); ++s) {
      sum += votes[static_cast<size_t>(s)];
      highest = std::max(highest, votes[static_cast<size_t>(s)]);
    }
    pooled.push_back(average ? sum : highest);
  }
  return pooled;
}

// One token after another: first each head's floor, then the best of all heads that is left.
Lists slow_winners(const std::vector<std::vector<double>>& votes, int64_t share, int64_t least) {
  Lists kept(votes.size());
  auto left = votes;
  const auto take = [&](size_t h) {
    const auto best = std::max_element(left[h].begin(), left[h].end());
    kept[h].push_back(best - left[h].begin());
    *best = -1;
  };
  for (size_t h = 0; h < votes.size(); ++h) {
    for (int64_t i = 0; i < least; ++i) take(h);
  }
  for (int64_t i = 0; i < (share - least) * static_cast<int64_t>(votes.size()); ++i) {
    size_t best = 0;
    double highest = -1;
    for (size_t h = 0; h < votes.size(); ++h) {
      const double most = *std::max_element(left[h].begin(), left[h].end());
      if (most > highest) best = h, highest = most;
    }
    take(best);
  }
  const auto n = static_cast<int64_t>(votes[0].size());
  for (auto& list : kept) {
    for (int64_t t = n; t < n + kWindow; ++t) list.push_back(t);
    std::sort(list.begin(), list.end());
  }
  return kept;
}

// Attention of each KV head gathers more than that of the one before.
RandomTokens uneven(const LayerInfo& info, int64_t n_tokens) {
  RandomTokens x(info, n_tokens);
  const int64_t group = info.n_heads / info.n_kv_heads;
  for (int64_t h = 0; h < info.n_kv_heads; ++h) {
    x.q.narrow(0, h * group, group).mul_(0.25 * (1 << h)).copy_(x.q.narrow(0, h * group, group).to(at::kHalf));
  }
  return x;
}

TEST(AdaKv, KeepsWhatASlowReferenceKeepsAndDecodesFor100Steps) {
  for (const auto& info : {kInfo, LayerInfo{.n_heads = 6, .n_kv_heads = 3, .head_dim = 16}}) {
    const auto x = uneven(info, 200);
    for (const char* pooling : {"avg", "max"}) {
      for (const int64_t kernel : {1, 5}) {
        const OpenCache cache("adakv", small(0.2, pooling, kernel), info);
        cache->append(x.part(0, 100));
        std::vector<std::vector<double>> votes;
        for (int64_t h = 0; h < info.n_kv_heads; ++h) {
          votes.push_back(slow_votes(x, info, h, 100, pooling == std::string("avg"), kernel));
        }
        auto kept = slow_winners(votes, 16, 3);  // floor(0.2 * 16)
        ASSERT_EQ(held_by(*cache.cache), kept) << pooling << kernel;
        ASSERT_NE(kept.front().size(), kept.back().size()) << "the heads keep as many: a weak test";
        for (int64_t t = 100; t < 200; ++t) {
          cache->append(x.part(t, 1));
          for (auto& positions : kept) positions.push_back(t);
          if (t % 10 == 0 || t == 199) {
            ASSERT_LT(attention_error(*cache.cache, x, t, kept), 2e-6) << t;
          }
        }
        EXPECT_EQ(held_by(*cache.cache), kept);
      }
    }
  }
}

TEST(AdaKv, AFloorOfAllIsSnapKv) {
  const auto x = uneven(kInfo, 90);
  auto snap = small(1);
  snap.erase("floor");
  const OpenCache ours("adakv", small(1), kInfo), theirs("snapkv", snap, kInfo);
  for (const auto* cache : {&ours, &theirs}) {
    (*cache)->append(x.part(0, 80));
    for (int64_t t = 80; t < 90; ++t) (*cache)->append(x.part(t, 1));
  }
  EXPECT_EQ(positions_of(*ours.cache), positions_of(*theirs.cache));
  EXPECT_TRUE(at::equal(ours->dequantize().v, theirs->dequantize().v));
  EXPECT_EQ(ours->footprint().total_bytes(), theirs->footprint().total_bytes());
}

// The first head's queries look at their own token alone, whose key is theirs, so that the others get next to nothing.
TEST(AdaKv, AHeadWithoutVotesKeepsItsFloorAndGivesTheRestAway) {
  RandomTokens x(kInfo, 60);
  x.q.fill_(0);
  for (int64_t t = 52; t < 60; ++t) {
    x.q.narrow(0, 0, 2).select(1, t).fill_(8);
    x.k[0][t].fill_(8);
  }
  for (const double floor : {0.0, 0.2, 0.5, 0.999}) {
    const OpenCache cache("adakv", small(floor), kInfo);
    cache->append(x.part(0, 60));
    const auto kept = held_by(*cache.cache);
    const auto least = static_cast<size_t>(16 * floor);
    EXPECT_EQ(kept[0].size(), kWindow + least) << floor;
    EXPECT_EQ(kept[1].size(), kWindow + 32 - least) << floor;
  }
}

TEST(AdaKv, OfEqualVotesTheOlderTokenStaysAndThenTheLowerHeads) {
  RandomTokens x(kInfo, 60);
  x.q.fill_(0);  // each query gives as much to each token
  const OpenCache even("adakv", small(0, "max", 1), kInfo);
  even->append(x.part(0, 60));
  std::vector<int64_t> first(16);
  std::iota(first.begin(), first.end(), 0);
  for (int64_t t = 52; t < 60; ++t) first.push_back(t);
  EXPECT_EQ(held_by(*even.cache), (Lists{first, first}));

  const LayerInfo three{.n_heads = 3, .n_kv_heads = 3, .head_dim = 16};
  const RandomTokens y(three, 60);
  y.q.fill_(0);
  const OpenCache odd("adakv", {{"capacity", 9}, {"window", 8}, {"floor", 0}, {"kernel", 1}}, three);
  odd->append(y.part(0, 60));
  for (const auto& kept : held_by(*odd.cache)) EXPECT_EQ(kept.front(), 0);
}

// What is not held takes no bytes; what an implementation that pads would hold is told beside.
TEST(AdaKv, HoldsRaggedBytesAndTellsPaddedOnes) {
  const auto x = uneven(kInfo, 104);
  const OpenCache cache("adakv", small(0.2), kInfo);
  cache->append(x.part(0, 100));
  for (int64_t t = 100; t < 104; ++t) cache->append(x.part(t, 1));
  const auto kept = held_by(*cache.cache);
  const auto sum = static_cast<int64_t>(kept[0].size() + kept[1].size());
  const auto longest = static_cast<int64_t>(std::max(kept[0].size(), kept[1].size()));
  EXPECT_EQ(sum, 2 * (24 + 4));
  EXPECT_EQ(cache->footprint().total_bytes(), 4 * 32 * sum + 4 * (sum - 2 * 4));
  const auto parts = dynamic_cast<const ProbedParts&>(*cache.cache).probed_parts();
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts[0].values[1].item<double>(), static_cast<double>(kept[1].size()));
  EXPECT_EQ(parts[1].name, "kv_ragged_bytes");
  EXPECT_EQ(parts[1].values.item<double>(), static_cast<double>(4 * 32 * sum));
  EXPECT_EQ(parts[2].name, "kv_padded_bytes");
  EXPECT_EQ(parts[2].values.item<double>(), static_cast<double>(4 * 32 * 2 * longest));
  EXPECT_GT(2 * longest, sum);
}

TEST(AdaKv, APromptWithinCapacityStaysWholeAndNeedsNoQueries) {
  const RandomTokens x(kInfo, 30);
  const OpenCache cache("adakv", small(0.2), kInfo);
  auto tokens = x.part(0, 24);
  tokens.q = at::Tensor();
  cache->append(tokens);
  for (int64_t t = 24; t < 30; ++t) cache->append(x.part(t, 1));
  EXPECT_EQ(cache->n_encoded_tokens(), 0);
  EXPECT_TRUE(at::equal(cache->dequantize().k, x.k));
  EXPECT_EQ(cache->footprint().total_bytes(), 2 * 4 * 32 * 30);
}

TEST(AdaKv, TokensThatOneHeadEvictedAreEncoded) {
  const auto x = uneven(kInfo, 100);
  const OpenCache cache("adakv", small(0.2), kInfo);
  cache->append(x.part(0, 100));
  const auto kept = held_by(*cache.cache);
  std::vector<int64_t> both;
  std::set_intersection(kept[0].begin(), kept[0].end(), kept[1].begin(), kept[1].end(), std::back_inserter(both));
  EXPECT_EQ(cache->n_encoded_tokens(), 100 - static_cast<int64_t>(both.size()));
  EXPECT_EQ(cache->n_encoded_numbers(), 0);
}

TEST(AdaKv, AttendsWithinTheModelsSlidingWindow) {
  auto info = kInfo;
  info.sliding_window = 20;
  const auto x = uneven(info, 130);
  const OpenCache cache("adakv", small(0.2, "max", 1), info);
  cache->append(x.part(0, 100));
  for (int64_t t = 100; t < 130; ++t) {
    cache->append(x.part(t, 1));
    auto kept = held_by(*cache.cache);
    for (auto& list : kept) std::erase_if(list, [&](int64_t p) { return p <= t - 20; });
    ASSERT_LT(attention_error(*cache.cache, x, t, kept), 2e-6) << t;
  }
}

TEST(AdaKv, PaperBytesAreThoseOfHeldTokens) {
  const Method adakv("adakv", small(0.2));
  for (const int64_t n_prompt : {1, 8, 23, 24, 25, 100}) {
    const auto x = uneven(kInfo, n_prompt);
    const OpenCache cache("adakv", small(0.2), kInfo);
    cache->append(x.part(0, n_prompt));
    int64_t held = 0;
    for (const auto& list : held_by(*cache.cache)) held += static_cast<int64_t>(list.size());
    EXPECT_EQ(adakv.compressor().paper_bytes({1, 4, 2, 32}, n_prompt, 0), static_cast<double>(4 * 32 * held));
    EXPECT_EQ(adakv.compressor().paper_bytes({1, 4, 2, 32}, n_prompt, 20), static_cast<double>(4 * 32 * (held + 40)));
  }
}

TEST(AdaKv, RefusesALongPromptWithoutQueriesAndAWindowThatFillsTheCapacity) {
  const RandomTokens x(kInfo, 40);
  const OpenCache cache("adakv", small(0.2), kInfo);
  auto tokens = x.part(0, 40);
  tokens.q = at::Tensor();
  EXPECT_THROW(cache->append(tokens), Error);
  EXPECT_THROW(Method("adakv", {{"capacity", 8}, {"window", 8}}), Error);
  EXPECT_THROW(Method("adakv", {{"floor", 1.1}}), Error);
}

}  // namespace
}  // namespace kvc::conformance
