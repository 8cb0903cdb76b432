#include <gtest/gtest.h>

#include <algorithm>

#include "attention64.h"

namespace kvc::conformance {
namespace {

const LayerInfo kInfo{.n_heads = 4, .n_kv_heads = 2, .head_dim = 32};

// 0 ... sinks - 1 and the newest `recent` of n tokens.
std::vector<int64_t> sinks_and_recent(int64_t n, int64_t sinks, int64_t recent) {
  std::vector<int64_t> kept;
  for (int64_t t = 0; t < n; ++t) {
    if (t < sinks || t >= n - recent) kept.push_back(t);
  }
  return kept;
}

TEST(Window, HoldsSinksAndTheNewestFor300Steps) {
  const RandomTokens x(kInfo, 320);
  for (const int64_t n_prompt : {1, 3, 20}) {
    for (const int64_t sinks : {0, 4}) {
      const OpenCache cache("window", {{"sinks", sinks}, {"recent", 16}}, kInfo);
      cache->append(x.part(0, n_prompt));
      for (int64_t t = n_prompt; t < n_prompt + 300; ++t) {
        cache->append(x.part(t, 1));
        const auto kept = sinks_and_recent(t + 1, sinks, 16);
        ASSERT_EQ(positions_of(*cache.cache), std::vector(2, kept)) << t;
        ASSERT_EQ(cache->length(), t + 1);
        ASSERT_EQ(cache->n_encoded_tokens(), t + 1 - static_cast<int64_t>(kept.size()));
        ASSERT_LT(attention_error(*cache.cache, x, t, {kept, kept}), 2e-6) << t;
      }
    }
  }
}

TEST(Window, GivesBackWhatItHolds) {
  const RandomTokens x(kInfo, 50);
  const OpenCache cache("window", {{"sinks", 3}, {"recent", 8}}, kInfo);
  cache->append(x.part(0, 50));
  const auto index = cache->positions()[0];
  EXPECT_TRUE(at::equal(cache->dequantize().k, x.k.index_select(1, index)));
  EXPECT_TRUE(at::equal(cache->dequantize().v, x.v.index_select(1, index)));
}

TEST(Window, PaperBytesAreThoseOfHeldTokens) {
  const Method window("window", {{"recent", 16}});
  for (const int64_t n : {1, 4, 5, 19, 20, 21, 33, 400})
    EXPECT_EQ(window.compressor().paper_bytes({1, 4, 2, 32}, n, 0), 4. * 2 * 32 * std::min<double>(n, 20));
}

// The model's own window of 10 hides two of the sinks' successors and most of what is held.
TEST(Window, IsSeenThroughTheModelsSlidingWindow) {
  auto info = kInfo;
  info.sliding_window = 10;
  const RandomTokens x(info, 60);
  const OpenCache cache("window", {{"recent", 16}}, info);
  cache->append(x.part(0, 8));
  for (int64_t t = 8; t < 60; ++t) {
    cache->append(x.part(t, 1));
    std::vector<int64_t> seen;
    for (int64_t s = std::max<int64_t>(0, t - 9); s <= t; ++s) seen.push_back(s);
    ASSERT_LT(attention_error(*cache.cache, x, t, {seen, seen}), 2e-6) << t;
  }
}

TEST(Window, RefusesAnEmptyWindow) {
  EXPECT_THROW(Method("window", {{"recent", 0}}), Error);
  EXPECT_THROW(Method("window", {{"sinks", -1}}), Error);
}

}  // namespace
}  // namespace kvc::conformance
