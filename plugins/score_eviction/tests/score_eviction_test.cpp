#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "attention64.h"

namespace kvc::conformance {
namespace {

const LayerInfo kInfo{.n_heads = 4, .n_kv_heads = 2, .head_dim = 32};

nlohmann::json by(const char* score, int64_t capacity = 24, int64_t sinks = 2, int64_t recent = 4) {
  return {{"score", score}, {"capacity", capacity}, {"sinks", sinks}, {"recent", recent}};
}

// A score of each of n tokens of KV head h, in float64, loop by loop.
std::vector<double> slow_scores(const std::string& score, const RandomTokens& x, int64_t h, int64_t n) {
  const auto k = x.k[h].to(at::kDouble).contiguous();
  const auto at = [&](int64_t t, int64_t j) { return k.const_data_ptr<double>()[t * 32 + j]; };
  std::vector<double> norms, scores(static_cast<size_t>(n), 0);
  for (int64_t t = 0; t < n; ++t) {
    double sum = 0;
    for (int64_t j = 0; j < 32; ++j) sum += at(t, j) * at(t, j);
    norms.push_back(std::sqrt(sum));
  }
  if (score == "knorm") {
    for (size_t t = 0; t < scores.size(); ++t) scores[t] = -norms[t];
  } else if (score == "keydiff") {
    for (int64_t j = 0; j < 32; ++j) {
      double anchor = 0;  // its length is the same for all tokens
      for (int64_t t = 0; t < n; ++t) anchor += at(t, j) / norms[static_cast<size_t>(t)];
      for (int64_t t = 0; t < n; ++t)
        scores[static_cast<size_t>(t)] -= anchor * at(t, j) / norms[static_cast<size_t>(t)];
    }
  } else {
    std::vector<int64_t> seen(static_cast<size_t>(n));
    std::iota(seen.begin(), seen.end(), 0);
    for (int64_t i = 0; i < 4; ++i) {
      const auto p = probabilities64(x.q[i][n - 1], x.k[i / 2], seen, 1 / std::sqrt(32.0));
      for (size_t t = 0; t < p.size(); ++t) scores[t] += p[t];
    }
  }
  return scores;
}

TEST(ScoreEviction, KeepsWhatASlowReferenceKeepsAndDecodes) {
  const RandomTokens x(kInfo, 100);
  for (const char* score : {"knorm", "keydiff", "tova"}) {
    const OpenCache cache("score_eviction", by(score), kInfo);
    cache->append(x.part(0, 60));
    std::vector<std::vector<int64_t>> kept;
    for (const int64_t h : {0, 1}) {
      const auto scores = slow_scores(score, x, h, 60);
      std::vector<int64_t> order(54);
      std::iota(order.begin(), order.end(), 2);  // between two sinks and four recent tokens
      std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
        return scores[static_cast<size_t>(a)] > scores[static_cast<size_t>(b)];
      });
      std::vector<int64_t> list{0, 1, 56, 57, 58, 59};
      list.insert(list.end(), order.begin(), order.begin() + 18);
      std::sort(list.begin(), list.end());
      kept.push_back(list);
    }
    ASSERT_EQ(positions_of(*cache.cache), kept) << score;
    for (int64_t t = 60; t < 100; ++t) {
      cache->append(x.part(t, 1));
      for (auto& positions : kept) positions.push_back(t);
      ASSERT_EQ(cache->n_encoded_tokens(), 36);
    }
    EXPECT_LT(attention_error(*cache.cache, x, 99, kept), 2e-6) << score;
  }
}

// A rotation of all keys changes no inner product of two of them.
TEST(ScoreEviction, KeydiffDoesNotSeeARotationOfAllKeys) {
  RandomTokens x(kInfo, 80);
  const OpenCache straight("score_eviction", by("keydiff"), kInfo), rotated("score_eviction", by("keydiff"), kInfo);
  straight->append(x.part(0, 80));
  x.k = x.k.roll({5}, {2}).mul(-1);  // of channels, and a reflection
  rotated->append(x.part(0, 80));
  EXPECT_EQ(positions_of(*straight.cache), positions_of(*rotated.cache));
}

TEST(ScoreEviction, OfEqualKeysTheOlderOnesStay) {
  RandomTokens x(kInfo, 40);
  x.k.fill_(1);
  const OpenCache cache("score_eviction", by("knorm", 10, 0, 4), kInfo);
  cache->append(x.part(0, 40));
  EXPECT_EQ(positions_of(*cache.cache)[0], (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 36, 37, 38, 39}));
}

TEST(ScoreEviction, ChanceIsTheSeedsTheLayersAndTheSequences) {
  const RandomTokens x(kInfo, 200);
  std::set<std::vector<int64_t>> drawn;
  const auto draw = [&](int64_t seed, int64_t layer, uint64_t sequence) {
    auto info = kInfo;
    info.layer = layer, info.n_layers = 2, info.sequence_key = sequence;
    auto options = by("random", 50);
    options["seed"] = seed;
    const OpenCache cache("score_eviction", options, info);
    cache->append(x.part(0, 200));
    const auto lists = positions_of(*cache.cache);
    EXPECT_NE(lists[0], lists[1]);
    return lists[0];
  };
  EXPECT_EQ(draw(0, 0, 7), draw(0, 0, 7));
  for (const auto& list : {draw(0, 0, 7), draw(1, 0, 7), draw(0, 1, 7), draw(0, 0, 8)}) drawn.insert(list);
  EXPECT_EQ(drawn.size(), 4u);
}

TEST(ScoreEviction, QueriesAreNeededByTovaAlone) {
  const RandomTokens x(kInfo, 40);
  auto tokens = x.part(0, 40);
  tokens.q = at::Tensor();
  const OpenCache knorm("score_eviction", by("knorm"), kInfo), tova("score_eviction", by("tova"), kInfo);
  knorm->append(tokens);
  EXPECT_EQ(knorm->n_encoded_tokens(), 16);
  EXPECT_THROW(tova->append(tokens), Error);
}

TEST(ScoreEviction, PaperBytesAreThoseOfHeldTokens) {
  const Method share("score_eviction", {{"keep", 0.25}, {"recent", 4}});
  for (const int64_t n_prompt : {1, 3, 4, 16, 17, 100}) {
    const int64_t held = std::min(n_prompt, std::max<int64_t>(4, std::llround(0.25 * static_cast<double>(n_prompt))));
    EXPECT_EQ(share.compressor().paper_bytes({1, 4, 2, 32}, n_prompt, 3), static_cast<double>(2 * 4 * 32 * (held + 3)));
    const RandomTokens x(kInfo, n_prompt);
    const OpenCache cache("score_eviction", {{"keep", 0.25}, {"recent", 4}}, kInfo);
    cache->append(x.part(0, n_prompt));
    EXPECT_EQ(cache->positions().size(1), held) << n_prompt;
  }
}

}  // namespace
}  // namespace kvc::conformance
