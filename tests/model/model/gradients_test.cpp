// Gradients by K and V against differences of a loss that the decoder's own steps compute.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "exact_cache.h"
#include "kvc/check.h"
#include "model/transformer.h"

namespace {

const std::vector<int64_t> kIds{0, 77, 12, 300, 45, 77, 230, 8};

// The summed negative log-likelihood of kIds, decoded one by one; `change` is put on one entry of K or V as it comes.
struct Change {
  bool of_k = true;
  int64_t layer = 0, token = 0, head = 0, channel = 0;
  double by = 0;
};
double stepped_loss(const kvc::Transformer& model, const Change& change) {
  std::vector<std::unique_ptr<kvc::LayerCache>> caches;
  for (int64_t layer = 0; layer < model.config().n_layers; ++layer) {
    caches.push_back(std::make_unique<kvc::test::ExactCache>(model.layer_info(layer, 0)));
  }
  const auto attend = [&](int64_t layer, std::span<const kvc::NewTokens> tokens, double scale, at::Tensor& attended) {
    auto token = tokens[0];
    token.k = token.k.clone(), token.v = token.v.clone();
    if (layer == change.layer && token.first_position == change.token) {
      (change.of_k ? token.k : token.v)[change.head][0][change.channel] += change.by;
    }
    auto& cache = *caches[static_cast<size_t>(layer)];
    cache.append(token);
    attended[0].copy_(cache.attend(token.q, scale).squeeze(1));
  };
  double loss = 0;
  for (size_t t = 0; t + 1 < kIds.size(); ++t) {
    const kvc::StepToken token{kIds[t], static_cast<int64_t>(t)};
    const auto logits = model.decode_step({&token, 1}, attend)[0].to(at::kDouble);
    loss -= logits.log_softmax(0)[kIds[t + 1]].item<double>();
  }
  return loss;
}

TEST(Gradients, AreTheSlopesOfTheDecodersOwnLoss) {
  const auto model = kvc::Transformer::load(std::filesystem::path(KVC_SOURCE_DIR) / "models/demo", at::kFloat);
  const auto got = model.gradients(kIds);
  ASSERT_EQ(got.layers.size(), 4u);
  EXPECT_NEAR(got.nll, stepped_loss(model, {}), 1e-3);
  for (const bool of_k : {true, false}) {
    for (const auto& [layer, token, head, channel] :
         {std::array<int64_t, 4>{0, 0, 0, 3}, {1, 2, 1, 40}, {2, 5, 0, 63}, {3, 6, 1, 17}, {3, 7, 1, 5}}) {
      const double step = 0.02;
      const auto loss = [&](double by) { return stepped_loss(model, {of_k, layer, token, head, channel, by}); };
      const double slope = (loss(step) - loss(-step)) / (2 * step);
      const auto& held = got.layers[static_cast<size_t>(layer)];
      const double gradient = (of_k ? held.k_gradient : held.v_gradient)[head][token][channel].item<double>();
      EXPECT_NEAR(gradient, slope, 2e-3 + 0.02 * std::abs(slope)) << of_k << " " << layer << " " << token;
      if (token == 7) {
        EXPECT_EQ(gradient, 0);  // the last token predicts nothing
      }
    }
  }
}

TEST(Gradients, StandBesideTheKeysValuesAndQueriesOfThePrefill) {
  const auto model = kvc::Transformer::load(std::filesystem::path(KVC_SOURCE_DIR) / "models/demo", at::kFloat);
  const auto got = model.gradients(kIds);
  model.prefill(kIds, [&](int64_t layer, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
    const auto& held = got.layers[static_cast<size_t>(layer)];
    EXPECT_LT((held.q - q).abs().max().item<double>(), 1e-4);
    EXPECT_LT((held.k - k).abs().max().item<double>(), 1e-4);
    EXPECT_LT((held.v - v).abs().max().item<double>(), 1e-4);
  });
  EXPECT_THROW(model.gradients(std::span(kIds).first(1)), kvc::Error);
}

}  // namespace
