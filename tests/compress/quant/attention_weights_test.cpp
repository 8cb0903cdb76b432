// Softmax with attention sinks and softcap, against closed forms and against a token in the sink's place.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "kvc/layer_cache.h"
#include "kvc/quant/attend_exact.h"
#include "kvc/quant/attention_mass.h"
#include "kvc/quant/compressed_attention.h"

namespace kvc {
namespace {

at::Tensor none() { return at::zeros({1}, at::kBool); }

TEST(AttentionWeights, ASinkTakesTheShareOfATokenWithThatScore) {
  const auto scores = at::tensor({std::log(1.f), std::log(2.f)}).view({1, 1, 2});
  const LayerInfo info{.n_heads = 1, .sinks = at::tensor({std::log(5.f)})};
  const auto weights = attention_weights(scores, none(), info);
  EXPECT_NEAR(weights[0][0][0].item<double>(), 1.0 / 8, 1e-6);
  EXPECT_NEAR(weights[0][0][1].item<double>(), 2.0 / 8, 1e-6);
}

TEST(AttentionWeights, ASoftcapComesBeforeTheMaskAndTheSinkHasNone) {
  const auto scores = at::tensor({1e6f, -1e6f, 3.f}).view({1, 1, 3});
  const LayerInfo info{.n_heads = 1, .logit_softcap = 2, .sinks = at::tensor({7.f})};
  const auto weights = attention_weights(scores, at::tensor({0, 0, 1}).to(at::kBool), info);
  const double all = std::exp(2.) + std::exp(-2.) + std::exp(7.);
  EXPECT_NEAR(weights[0][0][0].item<double>(), std::exp(2.) / all, 1e-6);
  EXPECT_NEAR(weights[0][0][1].item<double>(), std::exp(-2.) / all, 1e-6);
  EXPECT_EQ(weights[0][0][2].item<double>(), 0);
}

TEST(AttentionWeights, EachQueryHeadHasItsOwnSinkWhateverTheShape) {
  at::manual_seed(1);
  const auto scores = at::randn({2, 3, 4, 5}, at::kDouble), sinks = at::randn({8}, at::kFloat);
  const LayerInfo info{.n_heads = 8, .n_kv_heads = 2, .sinks = sinks};
  const auto weights = attention_weights(scores.clone(), none(), info, 2);
  for (int64_t h = 0; h < 6; ++h) {
    const auto row = scores.view({6, 4, 5})[h].exp();
    const auto expected = row / (row.sum(1, true) + sinks[h + 2].to(at::kDouble).exp());
    EXPECT_TRUE(at::allclose(weights.reshape({6, 4, 5})[h], expected)) << h;
  }
}

LayerInfo with_all(const at::Tensor& sinks) {
  return {.n_heads = 4, .n_kv_heads = 2, .head_dim = 16, .sliding_window = 30, .logit_softcap = 1.5, .sinks = sinks};
}

TEST(AttentionWeights, AllWaysOfAttendingUseThem) {
  at::manual_seed(3);
  const auto q = at::randn({4, 1, 16}), k = at::randn({2, 70, 16}), v = at::randn({2, 70, 16});
  const auto info = with_all(at::randn({4}));
  const auto positions = at::arange(70).expand({2, 70});
  const auto expected = reference_attention(q, {k, v}, positions, 70, 0.25, info);
  EXPECT_FALSE(at::allclose(expected, reference_attention(q, {k, v}, positions, 70, 0.25), 1e-2));

  CompressedAttention parts(q, 0.25, info, 70);
  parts.score(k, 0);
  parts.softmax();
  parts.accumulate_v(v, 0);
  EXPECT_TRUE(at::allclose(parts.out(), expected, 1e-5, 1e-6));

  TokenBlocks held_k(at::kFloat), held_v(at::kFloat);
  held_k.push_back(k), held_v.push_back(v);
  auto out = at::empty({1, 4, 16});
  const ExactTokens tokens{&held_k, &held_v};
  attend_exact({&tokens, 1}, {&q, 1}, 0.25, info, out);
  EXPECT_TRUE(at::allclose(out[0].unsqueeze(1), expected, 1e-5, 1e-6));
}

// What a sink takes is missing from the tokens' sum.
TEST(AttentionWeights, TokensAreRankedByWhatTheModelGivesThem) {
  const auto zeros = at::zeros({2, 3, 8});
  const LayerInfo info{.n_heads = 2, .n_kv_heads = 2, .head_dim = 8, .sinks = at::tensor({std::log(3.f), -300.f})};
  const auto mass = attention_mass(zeros.narrow(1, 2, 1), zeros, info);  // three equal scores
  EXPECT_NEAR(mass[0].sum().item<double>(), 0.5, 1e-6);
  EXPECT_NEAR(mass[1].sum().item<double>(), 1, 1e-6);
}

}  // namespace
}  // namespace kvc
