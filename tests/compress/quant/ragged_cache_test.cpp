#include "kvc/quant/ragged_cache.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include <cmath>

namespace kvc {
namespace {

const LayerInfo kInfo{.n_heads = 6, .n_kv_heads = 3, .head_dim = 16};

NewTokens random_tokens(int64_t n, uint64_t seed = 1) {
  auto generator = at::detail::createCPUGenerator(seed);
  const auto normal = [&](int64_t heads) { return at::randn({heads, n, 16}, generator, at::kFloat); };
  return {normal(6), normal(3), normal(3), 0};
}

NewTokens part(const NewTokens& x, int64_t first, int64_t n) {
  return {x.q.narrow(1, first, n), x.k.narrow(1, first, n), x.v.narrow(1, first, n), first};
}

// Keeps what the test says.
class GivenCache final : public RaggedCache {
 public:
  explicit GivenCache(at::Tensor kept, const LayerInfo& info = kInfo)
      : RaggedCache(info, Precision::exact), kept_(std::move(kept)) {}

 private:
  at::Tensor keeps(const NewTokens&) const override { return kept_; }
  at::Tensor kept_;
};

// Heads that keep every token, every third and the last alone: [3, n] bool
at::Tensor mask(int64_t n) {
  auto kept = at::zeros({3, n}, at::kBool);
  kept[0].fill_(true);
  kept[1].slice(0, 0, n, 3).fill_(true);
  kept[2][n - 1].fill_(true);
  return kept;
}

// Attention in float64 of the query heads of KV head h at position t over `seen`.
at::Tensor attention64(const NewTokens& x, int64_t h, int64_t t, const std::vector<int64_t>& seen) {
  const auto index = at::tensor(seen, at::kLong);
  const auto k = x.k[h].index_select(0, index).to(at::kDouble), v = x.v[h].index_select(0, index).to(at::kDouble);
  const auto q = x.q.narrow(0, 2 * h, 2).select(1, t).to(at::kDouble);
  return at::softmax(at::matmul(q, k.t()) * 0.3, -1).matmul(v);
}

std::vector<int64_t> seen_by(int64_t h, int64_t n_prompt, int64_t t, int64_t window = 0) {
  std::vector<int64_t> seen;
  for (int64_t p = 0; p <= t; ++p) {
    const bool kept = p >= n_prompt || h == 0 || (h == 1 ? p % 3 == 0 : p == n_prompt - 1);
    if (kept && (window == 0 || p > t - window)) seen.push_back(p);
  }
  return seen;
}

TEST(RaggedCache, EachHeadAttendsToItsOwnTokensAndToAllLaterOnes) {
  const auto x = random_tokens(60);
  for (const int64_t window : {0, 7, 25}) {
    auto info = kInfo;
    info.sliding_window = window;
    GivenCache cache(mask(40), info);
    cache.append(part(x, 0, 40));
    for (int64_t t = 39; t < 60; ++t) {
      if (t > 39) cache.append(part(x, t, 1));
      const auto got = cache.attend(x.q.narrow(1, t, 1), 0.3).squeeze(1);
      for (int64_t h = 0; h < 3; ++h) {
        const auto expected = attention64(x, h, t, seen_by(h, 40, t, window));
        EXPECT_LT((got.narrow(0, 2 * h, 2) - expected).abs().max().item<double>(), 2e-6) << window << " " << t;
      }
    }
    const auto three = cache.attend(x.q.narrow(1, 57, 3), 0.3);  // the last three tokens at once
    for (int64_t h = 0; h < 3; ++h) {
      const auto expected = attention64(x, h, 58, seen_by(h, 40, 58, window));
      EXPECT_LT((three.narrow(0, 2 * h, 2).select(1, 1) - expected).abs().max().item<double>(), 2e-6) << window;
    }
  }
}

TEST(RaggedCache, HoldsNothingForWhatAHeadDoesNotKeep) {
  const auto x = random_tokens(50);
  GivenCache cache(mask(40));
  cache.append(part(x, 0, 40));
  EXPECT_EQ(cache.footprint().total_bytes(), (40 + 14 + 1) * (2 * 4 * 16 + 4));
  for (int64_t t = 40; t < 50; ++t) cache.append(part(x, t, 1));
  EXPECT_EQ(cache.footprint().total_bytes(), (40 + 14 + 1) * (2 * 4 * 16 + 4) + 3 * 10 * 2 * 4 * 16);
  const auto parts = cache.probed_parts();
  EXPECT_TRUE(at::equal(parts[0].values, at::tensor({50., 24., 11.}, at::kDouble)));
  EXPECT_EQ(parts[1].values.item<double>(), (50 + 24 + 11) * 2 * 4 * 16);
  EXPECT_EQ(parts[2].values.item<double>(), 3 * 50 * 2 * 4 * 16);
  EXPECT_EQ(cache.n_encoded_tokens(), 39);  // all heads hold the prompt's last token alone
}

TEST(RaggedCache, PositionsOfAHeadThatKeepsFewerBeginWithMinusOne) {
  const auto x = random_tokens(7);
  GivenCache cache(mask(6));
  cache.append(part(x, 0, 6));
  cache.append(part(x, 6, 1));
  const auto expected = at::tensor({0, 1, 2, 3, 4, 5, 6, -1, -1, -1, -1, 0, 3, 6, -1, -1, -1, -1, -1, 5, 6}, at::kLong);
  EXPECT_TRUE(at::equal(cache.positions(), expected.view({3, 7})));
  const auto held = cache.dequantize();
  EXPECT_TRUE(at::equal(held.k[1].narrow(0, 4, 3), x.k[1].slice(0, 0, 7, 3)));
  EXPECT_TRUE(at::equal(held.v[2].narrow(0, 5, 2), x.v[2].narrow(0, 5, 2)));
  EXPECT_EQ(held.v[2].narrow(0, 0, 5).abs().max().item<float>(), 0);
}

TEST(RaggedCache, AnUndefinedMaskKeepsAllWithoutPositions) {
  const auto x = random_tokens(20);
  GivenCache cache({});
  cache.append(part(x, 0, 15));
  for (int64_t t = 15; t < 20; ++t) cache.append(part(x, t, 1));
  EXPECT_TRUE(at::equal(cache.dequantize().k, x.k));
  EXPECT_EQ(cache.footprint().total_bytes(), 3 * 20 * 2 * 4 * 16);
  EXPECT_EQ(cache.n_encoded_tokens(), 0);
  EXPECT_EQ(cache.probed_parts()[1].values.item<double>(), cache.probed_parts()[2].values.item<double>());
}

TEST(RaggedCache, RefusesMasksOfAnotherShapeTypeOrWithAHeadOfNothing) {
  const auto x = random_tokens(6);
  auto empty_head = mask(6);
  empty_head[1].fill_(false);
  for (const auto& bad : {mask(5), mask(6).narrow(0, 0, 2), mask(6).to(at::kLong), empty_head}) {
    GivenCache cache(bad);
    EXPECT_THROW(cache.append(x), Error);
  }
}

}  // namespace
}  // namespace kvc
