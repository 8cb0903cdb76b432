#include "kvc/quant/attention_mass.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>

namespace kvc {
namespace {

// All at once in float64.
at::Tensor mass64(const at::Tensor& q, const at::Tensor& k, double scale, int64_t window) {
  const int64_t group = q.size(0) / k.size(0), n = k.size(1), n_queries = q.size(1);
  const auto keys = k.to(at::kDouble).repeat_interleave(group, 0);
  const auto i = at::arange(n - n_queries, n).unsqueeze(1), j = at::arange(n).unsqueeze(0);
  const auto hidden = window > 0 ? j.gt(i).logical_or(j.le(i - window)) : j.gt(i);
  const auto scores = at::matmul(q.to(at::kDouble), keys.transpose(1, 2))
                          .mul(scale)
                          .masked_fill(hidden, -std::numeric_limits<double>::infinity());
  return scores.softmax(-1).sum(1).view({k.size(0), group, n}).sum(1);
}

TEST(AttentionMass, IsTheColumnSumWhateverTheChunks) {
  at::manual_seed(3);
  const int64_t n = 1500;  // 2 query heads a KV head: chunks of 699 queries
  const auto q = at::randn({4, n, 16}), k = at::randn({2, n, 16});
  for (const int64_t n_queries : {n, int64_t{32}, int64_t{1}}) {
    for (const int64_t window : {0, 100}) {
      const auto last = q.narrow(1, n - n_queries, n_queries);
      const auto mass = attention_mass(last, k, {.n_heads = 4, .sliding_window = window, .attention_scale = 0.25}),
                 expected = mass64(last, k, 0.25, window);
      EXPECT_TRUE(at::allclose(mass.to(at::kDouble), expected, 1e-4, 1e-6)) << n_queries << " " << window;
      EXPECT_NEAR(mass[1].sum().item<double>(), 2.0 * static_cast<double>(n_queries), 1e-2);
    }
  }
}

// Keys that are missing and keys that no query gives anything (scores of -1000) leave the same to the others.
TEST(AttentionMass, OfSomeKeysIsByTheirPositions) {
  at::manual_seed(4);
  const auto q = at::rand({2, 20, 8}), k = at::rand({2, 90, 8});
  const auto held = at::cat({at::arange(0, 90, 7).slice(0, 0, 10), at::arange(70, 90)}).expand({2, 30});
  for (const int64_t window : {0, 33}) {
    const LayerInfo layer{.n_heads = 2, .sliding_window = window, .attention_scale = 0.25};
    auto others = at::ones({90}, at::kBool);
    others.index_fill_(0, held[0], false);
    const auto blank = k.masked_fill(others.view({1, 90, 1}), -1000.0 * 4);
    const auto some = attention_mass(q, k.index_select(1, held[0]), layer, held);
    EXPECT_TRUE(at::allclose(some, attention_mass(q, blank, layer).index_select(1, held[0]), 1e-4, 1e-6)) << window;
  }
}

TEST(AttentionMass, RefusesMoreQueriesThanKeys) {
  EXPECT_THROW(attention_mass(at::ones({2, 5, 8}), at::ones({2, 4, 8}), LayerInfo{}), Error);
  EXPECT_THROW(attention_mass(at::ones({3, 4, 8}), at::ones({2, 4, 8}), LayerInfo{}), Error);
}

}  // namespace
}  // namespace kvc
