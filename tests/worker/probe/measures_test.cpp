// Measures on matrices small enough to be worked out by hand.
#include "probe/measures.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

namespace kvc {
namespace {

LayerInfo layer(double scale, int64_t window) { return {.sliding_window = window, .attention_scale = scale}; }

TEST(Measures, FrobeniusIsOfEachHeadAndOfAll) {
  const auto exact = at::tensor({3.f, 4.f, 0.f, 12.f}).view({2, 1, 2});  // norms 5 and 12
  const auto held = at::tensor({3.f, 4.f, 3.f, 8.f}).view({2, 1, 2});    // off by 0 and 5
  const auto errors = frobenius_errors(exact, held);
  EXPECT_EQ(errors.absolute, (std::vector<double>{0, 5, 5}));
  EXPECT_DOUBLE_EQ(errors.relative[1], 5.0 / 12);
  EXPECT_DOUBLE_EQ(errors.relative[2], 5.0 / 13);
  EXPECT_TRUE(std::isnan(frobenius_errors(at::zeros({1, 1, 2}), at::ones({1, 1, 2})).relative[0]) ||
              std::isinf(frobenius_errors(at::zeros({1, 1, 2}), at::ones({1, 1, 2})).relative[0]));
}

// Two tokens whose keys are alike share the weight; with the first evicted the second has it all.
TEST(Measures, AttentionOfAnEvictedTokenGoesToTheOthers) {
  const auto q = at::ones({1, 1, 2});
  const KeyValue exact{at::ones({1, 2, 2}), at::tensor({2.f, 0.f, 0.f, 2.f}).view({1, 2, 2})};
  HeldTokens held{exact.k.to(at::kDouble), exact.v.to(at::kDouble), at::tensor({0, 1}).view({1, 2}).to(at::kBool)};
  held.k[0][0].zero_();
  held.v[0][0].zero_();
  const auto errors = attention_errors(q, exact, held, layer(1, 0));
  EXPECT_DOUBLE_EQ(errors.scores[0], 1);  // (1/2)^2 + (1/2)^2 over the same
  EXPECT_DOUBLE_EQ(errors.output[0], 1);  // (1, 1) against (0, 2)
  EXPECT_DOUBLE_EQ(attention_errors(q, exact, held, layer(1, 1)).scores[0],
                   0);  // a window that sees the last token alone
}

// Its scores come from vectors that are not the nearest to its keys.
struct Estimating final : LayerCache {
  Estimating() : LayerCache({.head_dim = 2}) {}
  void append(const NewTokens&) override {}
  KeyValue dequantize() const override { return {at::ones({1, 2, 2}), at::ones({1, 2, 2})}; }
  KeyValue attended() const override { return {at::full({1, 2, 2}, 3), at::ones({1, 2, 2})}; }
  int64_t length() const override { return 2; }
  int64_t n_encoded_tokens() const override { return 2; }
  Footprint footprint() const override { return {}; }
};

TEST(Measures, WhatIsHeldAndWhatIsAttendedToAreTheCachesOwn) {
  const Estimating cache;
  EXPECT_TRUE(at::equal(held_tokens(cache).k, at::ones({1, 2, 2}, at::kDouble)));
  EXPECT_TRUE(at::equal(attended_tokens(cache).k, at::full({1, 2, 2}, 3, at::kDouble)));
}

// Two KV heads with two query heads each; the second KV head has lost its first token. Its query heads weigh the two by
// (1/4, 3/4), by the key ln 3 of the second, and by halves; held, all is the second's. Outputs: (1/2, 3/2) and (1, 1)
// against (0, 2), beside (2, 2) of the others'.
TEST(Measures, AKvHeadsErrorsAreOfItsOwnQueryHeads) {
  const auto q = at::tensor({0.f, 1.f, 0.f, 1.f, 1.f, 0.f, 0.f, 1.f}).view({4, 1, 2});
  const auto k = at::tensor({0.f, 0.f, 0.f, 0.f, 0.f, 0.f, std::log(3.f), 0.f}).view({2, 2, 2});
  const auto v = at::tensor({4.f, 0.f, 0.f, 4.f, 2.f, 0.f, 0.f, 2.f}).view({2, 2, 2});
  HeldTokens held{k.to(at::kDouble), v.to(at::kDouble), at::tensor({1, 1, 0, 1}).view({2, 2}).to(at::kBool)};
  held.v[1][0].zero_();
  const auto errors = attention_errors(q, {k, v}, held, layer(1, 0));
  const std::vector<double> scores{0, 0, 0.2, 1, 0.3}, output{0, 0, std::sqrt(0.2), 1, std::sqrt(2.5 / 20.5)};
  ASSERT_EQ(errors.scores.size(), scores.size());
  for (size_t i = 0; i < scores.size(); ++i) {
    EXPECT_NEAR(errors.scores[i], scores[i], 1e-6) << i;
    EXPECT_NEAR(errors.output[i], output[i], 1e-6) << i;
  }
}

// The last two of three tokens: (1/2, 1/2) against (0, 1), and thirds against (0, 1/2, 1/2).
TEST(Measures, ScoresAreMeansOverTheLastQueries) {
  const auto ones = at::ones({1, 3, 2});
  HeldTokens held{ones.to(at::kDouble), ones.to(at::kDouble), at::tensor({0, 1, 1}).view({1, 3}).to(at::kBool)};
  const auto errors = attention_errors(at::ones({1, 2, 2}), {ones, ones}, held, layer(1, 0));
  EXPECT_DOUBLE_EQ(errors.scores[0], (1 + 0.5) / 2);
}

// Half of what two equal keys are weighed by: the scale turns a product of ln 3 / s into ln 3.
TEST(Measures, ScoresAreScaled) {
  const auto k = at::tensor({0.f, 4 * std::log(3.f)}).view({1, 2, 1}), v = at::ones({1, 2, 1});
  const HeldTokens held{at::zeros({1, 2, 1}, at::kDouble), v.to(at::kDouble), at::ones({1, 2}, at::kBool)};
  const auto errors = attention_errors(at::ones({1, 1, 1}), {k, v}, held, layer(0.25, 0));  // (1/4, 3/4) against halves
  EXPECT_NEAR(errors.scores[0], (2 / 16.0) / (10 / 16.0), 1e-6);
}

// Holds tokens 0 and 2 in its first head, 1 alone in its second.
class FewTokens final : public LayerCache {
 public:
  FewTokens() : LayerCache({}) {}
  void append(const NewTokens&) override {}
  KeyValue dequantize() const override {
    const auto k = at::tensor({20.f, 22.f, 11.f, 99.f}).view({2, 2, 1});
    return {k, -k};
  }
  at::Tensor positions() const override { return at::tensor({0, 2, 1, -1}, at::kLong).view({2, 2}); }
  int64_t length() const override { return 3; }
  int64_t n_encoded_tokens() const override { return 0; }
  Footprint footprint() const override { return {}; }
};

TEST(Measures, HeldTokensStandAtTheirPositionsAndEvictedOnesAreZero) {
  const auto held = held_tokens(FewTokens());
  const auto k = at::tensor({20., 0., 22., 0., 11., 0.}, at::kDouble).view({2, 3, 1});
  EXPECT_TRUE(at::equal(held.k, k)) << held.k;
  EXPECT_TRUE(at::equal(held.v, -k)) << held.v;
  EXPECT_TRUE(at::equal(held.kept, at::tensor({1, 0, 1, 0, 1, 0}).view({2, 3}).to(at::kBool))) << held.kept;
}

TEST(Measures, ChannelMeansAreOfMagnitudesOverTokensHeadByHead) {
  const auto x = at::tensor({1.f, -2.f, -3.f, 4.f, 5.f, 0.f, -5.f, 0.f}).view({2, 2, 2});
  EXPECT_EQ(channel_mean_abs(x), (std::vector<double>{2, 3, 5, 0}));
}

TEST(Measures, SingularValuesOfAMaskAreTheGraphs) {
  // A biregular mask of degrees 2 and 2: the first is sqrt(2 * 2).
  const auto mask = at::tensor({1, 1, 0, 0, 1, 1, 1, 0, 1}).view({3, 3}).to(at::kBool);
  const auto sigma = singular_values(mask);
  EXPECT_NEAR(sigma[0], 2, 1e-12);
  EXPECT_NEAR(sigma[1], 1, 1e-12);  // |1 + exp(2 pi i / 3)|
}

TEST(Measures, QuartilesLieBetweenTheTwoNearest) {
  const auto q = quartiles(at::tensor({4.f, 1.f, 2.f, 3.f}));
  EXPECT_DOUBLE_EQ(q.min, 1);
  EXPECT_DOUBLE_EQ(q.q1, 1.75);
  EXPECT_DOUBLE_EQ(q.median, 2.5);
  EXPECT_DOUBLE_EQ(q.q3, 3.25);
  EXPECT_DOUBLE_EQ(q.max, 4);
}

// Probabilities (1/2, 1/2) against (1/4, 3/4): KL = ln(2/sqrt 3).
TEST(Measures, KlIsOfTheExactDistributionAgainstTheOther) {
  const auto errors = logit_errors(at::zeros({2}), at::tensor({0.f, std::log(3.f)}));
  EXPECT_NEAR(errors.kl, std::log(2 / std::sqrt(3.0)), 1e-7);
  EXPECT_NEAR(errors.max_abs, std::log(3.0), 1e-7);
  EXPECT_NEAR(errors.l2, std::log(3.0), 1e-7);
  EXPECT_FALSE(errors.top1_same);
}

}  // namespace
}  // namespace kvc
