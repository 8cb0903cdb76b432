// think against the public rule in float64 loops, attention over the channels that are held, and bytes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "attention64.h"
#include "support/message_of.h"

namespace kvc::conformance {
namespace {

constexpr int64_t D = 32;
const LayerInfo kInfo{.n_heads = 4, .n_kv_heads = 2, .head_dim = D};
const nlohmann::json kSmall = {{"ratio", 0.4}, {"window", 6}, {"recent", 5}};

// Queries and keys whose channels differ in size, those of one not as those of the other.
RandomTokens sized_tokens(int64_t n) {
  RandomTokens x(kInfo, n, 5);
  x.q = (x.q * (at::arange(D, at::kFloat) * 1.3).sin().exp()).to(at::kHalf).to(at::kFloat);
  x.k = (x.k * (at::arange(D, at::kFloat) * 0.7).cos().mul(2).exp()).to(at::kHalf).to(at::kFloat);
  return x;
}

// The channels that KV head h keeps: the last 6 queries of both its query heads, all keys of the prompt.
std::vector<int64_t> slow_channels(const RandomTokens& x, int64_t h, int64_t n_prompt, int64_t n_kept) {
  std::vector<std::pair<double, int64_t>> worth;  // (-worth, channel)
  for (int64_t j = 0; j < D; ++j) {
    double of_queries = 0, of_keys = 0;
    for (int64_t i = 2 * h; i < 2 * h + 2; ++i) {
      for (int64_t t = n_prompt - 6; t < n_prompt; ++t) of_queries += std::pow(x.q[i][t][j].item<double>(), 2);
    }
    for (int64_t t = 0; t < n_prompt; ++t) of_keys += std::pow(x.k[h][t][j].item<double>(), 2);
    worth.emplace_back(-of_queries * of_keys, j);
  }
  std::sort(worth.begin(), worth.end());
  std::vector<int64_t> kept;
  for (int64_t i = 0; i < n_kept; ++i) kept.push_back(worth[static_cast<size_t>(i)].second);
  return kept;
}

TEST(Think, DropsTheChannelsThatThePublicRuleDropsAndNoOther) {
  const auto x = sized_tokens(60);
  const OpenCache cache("think", kSmall, kInfo);
  cache->append(x.part(0, 40));
  for (int64_t t = 40; t < 60; ++t) cache->append(x.part(t, 1));
  EXPECT_EQ(cache->n_encoded_tokens(), 35);
  auto expected = x.k.clone();
  for (int64_t h = 0; h < 2; ++h) {
    const auto kept = slow_channels(x, h, 40, D - 12);  // int(0.4 * 32) = 12
    for (int64_t j = 0; j < D; ++j) {
      if (std::find(kept.begin(), kept.end(), j) == kept.end()) expected[h].narrow(0, 0, 35).select(1, j).zero_();
    }
  }
  EXPECT_TRUE(at::equal(cache->dequantize().k, expected));
  EXPECT_TRUE(at::equal(cache->dequantize().v, x.v));
}

TEST(Think, AttendsWithTheQuerysHeldChannelsAtEveryStep) {
  const auto x = sized_tokens(120);
  for (const double ratio : {0.0, 0.1, 0.5, 0.97}) {
    auto options = kSmall;
    options["ratio"] = ratio;
    const OpenCache cache("think", options, kInfo);
    cache->append(x.part(0, 50));
    for (int64_t t = 50; t < 120; ++t) {
      cache->append(x.part(t, 1));
      if (t % 10 == 0) expect_attends(*cache.cache, x.q.narrow(1, t, 1), 0.2);
    }
    EXPECT_EQ(cache->n_encoded_tokens(), ratio == 0 ? 0 : 45);
  }
}

TEST(Think, PromptsNoLongerThanTheRecentTokensStayWhole) {
  const auto x = sized_tokens(30);
  const OpenCache cache("think", kSmall, kInfo);
  cache.append(x.k.narrow(1, 0, 5), x.v.narrow(1, 0, 5));  // no query is needed
  for (int64_t t = 5; t < 30; ++t) cache->append(x.part(t, 1));
  EXPECT_EQ(cache->n_encoded_tokens(), 0);
  EXPECT_TRUE(at::equal(cache->dequantize().k, x.k));
}

TEST(Think, BytesAreTheClosedForm) {
  const auto x = sized_tokens(60);
  for (const double ratio : {0.0, 0.4, 0.5}) {
    auto options = kSmall;
    options["ratio"] = ratio;
    const OpenCache cache("think", options, kInfo);
    cache->append(x.part(0, 40));
    for (int64_t t = 40; t < 60; ++t) cache->append(x.part(t, 1));
    const auto kept = static_cast<int64_t>(D - std::floor(ratio * D));
    const int64_t n_pruned = ratio == 0 ? 0 : 35;
    const int64_t expected = 2 * (2 * kept * n_pruned + 2 * D * (60 - n_pruned) + 2 * D * 60);
    EXPECT_EQ(cache->footprint().total_bytes(), expected + (ratio == 0 ? 0 : 2 * 2 * kept)) << ratio;
  }
  // "20 % less": half of K's channels are a quarter of the bytes, 40 % a fifth.
  const auto compressor = plugin("think").make({{"recent", 0}});
  const ModelShape shape{.n_layers = 1, .n_heads = 2, .n_kv_heads = 2, .head_dim = 128};
  EXPECT_NEAR(compressor->paper_bytes(shape, 1000, 0) / (1000.0 * 2 * 128 * 4), 0.8, 1e-9);
}

TEST(Think, RefusesAPromptWithoutQueries) {
  const auto x = sized_tokens(40);
  const OpenCache cache("think", kSmall, kInfo);
  const auto refused = [&](const at::Tensor& q) { return test::message_of([&] { cache->append({q, x.k, x.v, 0}); }); };
  EXPECT_NE(refused({}).find("queries select the channels, but there are none"), std::string::npos);
  EXPECT_NE(refused(x.q.narrow(1, 0, 39)).find("q has shape [4, 39, 32], expected [4, 40, 32]"), std::string::npos);
  EXPECT_NE(refused(x.q.clone().fill_(NAN)).find("not finite"), std::string::npos);
  EXPECT_EQ(cache->length(), 0);
}

}  // namespace
}  // namespace kvc::conformance
