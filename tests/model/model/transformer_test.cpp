// The decoder on a random tiny model: decode equals prefill, prompts of any length give the same bits, bad input is
// named. Parity with another implementation is logits_parity.py's matter.
#include "model/transformer.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "checkpoint/rope.h"
#include "checkpoint/safetensors.h"
#include "exact_cache.h"
#include "model/ops.h"
#include "support/message_of.h"
#include "support/small_llama.h"
#include "support/temp_folder.h"

namespace {

using kvc::test::message_of;
using kvc::test::SmallLlama;
using kvc::test::TempFolder;
using testing::HasSubstr;

constexpr int64_t kHidden = 48, kMlp = 80, kHeads = 4, kHeadDim = 12, kVocab = 61, kLayers = 2, kMaxPositions = 300;

SmallLlama llama(int64_t n_kv_heads) {
  return {kHidden, kMlp, kHeads, n_kv_heads, kHeadDim, kVocab, kLayers, kMaxPositions};
}

std::map<std::string, at::Tensor> random_weights(int64_t n_kv_heads) {
  at::manual_seed(3);
  return llama(n_kv_heads).weights();
}

// Mistral: Llama with a window.
kvc::Transformer load(const std::map<std::string, at::Tensor>& weights, int64_t n_kv_heads,
                      at::ScalarType dtype = at::kFloat, const nlohmann::json& window = nullptr) {
  const TempFolder dir;
  kvc::write_safetensors(dir / "model.safetensors", weights);
  auto config = llama(n_kv_heads).config();
  config["architectures"] = {"MistralForCausalLM"};
  config["sliding_window"] = window;
  dir.write("config.json", config.dump());
  return kvc::Transformer::load(dir.path(), dtype);
}
kvc::Transformer load(int64_t n_kv_heads = 2, at::ScalarType dtype = at::kFloat) {
  return load(random_weights(n_kv_heads), n_kv_heads, dtype);
}

std::vector<int64_t> some_ids(int64_t n) { return llama(2).ids(n); }

double distance(const at::Tensor& a, const at::Tensor& b) { return a.sub(b).abs().max().item<double>(); }

class TransformerOf : public testing::TestWithParam<int64_t> {};  // n_kv_heads

TEST_P(TransformerOf, DecodesWhatItPrefills) {
  const auto model = load(GetParam());
  const auto ids = some_ids(150);
  const auto all = model.prefill(ids, nullptr, 150);
  auto caches = kvc::test::exact_caches(model);
  model.prefill(std::span(ids).first(70), kvc::test::append_to(caches));
  for (int64_t t = 70; t < 150; ++t) {
    const auto logits = model.decode_step(ids[static_cast<size_t>(t)], t, caches);
    ASSERT_LT(distance(logits, all[t]), 2e-5) << "position " << t;  // fp32, another order of sums
  }
}
INSTANTIATE_TEST_SUITE_P(KvHeads, TransformerOf, testing::Values(1, 2, 4));

// Two layers of window 20 look back 38 positions: what lies further back must not matter, and what lies nearer must.
TEST(Transformer, SeesNoFurtherThanItsWindows) {
  const auto model = load(random_weights(2), 2, at::kFloat, 20);
  auto ids = some_ids(150);
  const auto logits = model.prefill(ids, nullptr, 150);
  auto caches = kvc::test::exact_caches(model);
  model.prefill(std::span(ids).first(70), kvc::test::append_to(caches));
  for (int64_t t = 70; t < 150; ++t) {
    ASSERT_LT(distance(model.decode_step(ids[static_cast<size_t>(t)], t, caches), logits[t]), 2e-5) << t;
  }
  ids[100] = (ids[100] + 1) % kVocab;
  const auto changed = model.prefill(ids, nullptr, 150);
  EXPECT_TRUE(at::equal(changed.narrow(0, 139, 11), logits.narrow(0, 139, 11)));
  EXPECT_FALSE(at::equal(changed[138], logits[138]));
}

TEST(Transformer, GivesAPrefixTheSameBitsWhateverFollowsIt) {
  const auto model = load();
  const auto ids = some_ids(200);
  std::vector<at::Tensor> long_k;
  const auto all = model.prefill(
      ids, [&](int64_t, const at::Tensor&, const at::Tensor& k, const at::Tensor&) { long_k.push_back(k); }, 200);
  for (const int64_t n : {1, 31, 63, 64, 65, 128, 150}) {
    std::vector<at::Tensor> k_of;
    const auto logits = model.prefill(
        std::span(ids).first(static_cast<size_t>(n)),
        [&](int64_t, const at::Tensor&, const at::Tensor& k, const at::Tensor&) { k_of.push_back(k); }, n);
    EXPECT_TRUE(at::equal(logits, all.narrow(0, 0, n))) << n;
    for (size_t layer = 0; layer < k_of.size(); ++layer)
      EXPECT_TRUE(at::equal(k_of[layer], long_k[layer].narrow(1, 0, n))) << n;
  }
}

TEST(Transformer, HandsOutEachLayerInOrderAndShape) {
  const auto model = load(2);
  int64_t next = 0;
  model.prefill(some_ids(33), [&](int64_t layer, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
    EXPECT_EQ(layer, next++);
    EXPECT_EQ(q.sizes(), at::IntArrayRef({kHeads, 33, kHeadDim}));
    EXPECT_EQ(k.sizes(), at::IntArrayRef({2, 33, kHeadDim}));
    EXPECT_EQ(v.sizes(), k.sizes());
    EXPECT_TRUE(q.is_contiguous() && k.is_contiguous() && v.is_contiguous());
  });
  EXPECT_EQ(next, kLayers);
}

TEST(Transformer, ComputesInSixteenBitsCloseToThirtyTwo) {
  const auto ids = some_ids(100);
  const auto exact = load().prefill(ids, nullptr, 100);
  for (const auto dtype : {at::kHalf, at::kBFloat16}) {
    const auto model = load(2, dtype);
    auto caches = kvc::test::exact_caches(model);
    const auto logits = model.prefill(std::span(ids).first(99), kvc::test::append_to(caches), 99);
    const double step = dtype == at::kHalf ? 0x1p-11 : 0x1p-8;  // rounding of one number; logits reach about 5
    EXPECT_LT(distance(logits, exact.narrow(0, 0, 99)), 40 * step) << at::toString(dtype);
    EXPECT_LT(distance(model.decode_step(ids[99], 99, caches), exact[99]), 40 * step) << at::toString(dtype);
    EXPECT_LT(model.weights_bytes(), load().weights_bytes() * 0.55);
  }
}

TEST(Transformer, NamesBadIdsAndPositions) {
  const auto model = load();
  auto caches = kvc::test::exact_caches(model);
  EXPECT_THAT(message_of([&] {
                model.prefill(std::vector<int64_t>{1, kVocab}, nullptr);
              }),
              testing::AllOf(HasSubstr("id 61"), HasSubstr("position 1"), HasSubstr("0 to 60")));
  EXPECT_THAT(message_of([&] { model.prefill(std::vector<int64_t>{-1}, nullptr); }), HasSubstr("id -1"));
  EXPECT_THAT(message_of([&] { model.prefill({}, nullptr); }), HasSubstr("no tokens"));
  EXPECT_THAT(message_of([&] { model.prefill(some_ids(kMaxPositions + 1), nullptr); }),
              HasSubstr("max_position_embeddings 300"));
  EXPECT_THAT(message_of([&] { model.prefill(some_ids(3), nullptr, 4); }),
              HasSubstr("last 4 positions, expected 1 to 3"));
  EXPECT_THAT(message_of([&] { model.decode_step(1, kMaxPositions, caches); }), HasSubstr("position 300"));
  caches.pop_back();
  EXPECT_THAT(message_of([&] { model.decode_step(1, 0, caches); }), HasSubstr("1 caches for 2 layers"));
  EXPECT_THAT(message_of([&] { load(2, at::kDouble); }), HasSubstr("Double"));
}

TEST(Transformer, NamesMissingMisshapenAndUnknownWeights) {
  const auto name = "model.layers.1.mlp.up_proj.weight";
  auto weights = random_weights(2);
  weights.erase(name);
  EXPECT_THAT(message_of([&] { load(weights, 2); }), HasSubstr(kvc::concat("no tensor '", name)));
  weights[name] = at::ones({kMlp, kHidden + 1});
  EXPECT_THAT(message_of([&] { load(weights, 2); }),
              testing::AllOf(HasSubstr(name), HasSubstr("[80, 49]"), HasSubstr("[80, 48]")));
  weights[name] = at::ones({kMlp, kHidden}, at::kInt);
  EXPECT_THAT(message_of([&] { load(weights, 2); }), testing::AllOf(HasSubstr(name), HasSubstr("I32")));
  weights = random_weights(2);
  weights["model.layers.0.self_attn.q_proj.bias"] = at::ones({kHeads * kHeadDim});
  EXPECT_THAT(message_of([&] { load(weights, 2); }), HasSubstr("q_proj.bias"));
}

TEST(Rope, RotatesEachPairByItsAngle) {
  const int64_t head_dim = 6;
  const double theta = 100.0;
  const auto table = kvc::rope_table(std::vector<int64_t>{5, 6}, kvc::rope_frequencies({.theta = theta}, head_dim));
  const auto merged = at::arange(2 * 2 * head_dim, at::kFloat).view({2, 2 * head_dim});  // two tokens, two heads
  auto out = at::zeros({1, 3, head_dim});
  kvc::split_heads_(merged, 1, table, 1, out);  // the second head, to tokens 1 and 2
  for (int64_t t = 0; t < 2; ++t) {
    for (int64_t i = 0; i < head_dim / 2; ++i) {
      const double angle =
          static_cast<double>(5 + t) * std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim));
      const double a = merged[t][head_dim + i].item<double>(), b = merged[t][head_dim + i + 3].item<double>();
      EXPECT_NEAR(out[0][1 + t][i].item<double>(), a * std::cos(angle) - b * std::sin(angle), 1e-5);
      EXPECT_NEAR(out[0][1 + t][i + 3].item<double>(), a * std::sin(angle) + b * std::cos(angle), 1e-5);
    }
  }
  EXPECT_EQ(out[0][0].abs().sum().item<double>(), 0.0);
}

TEST(Rope, Llama3KeepsFastPairsSlowsSlowOnesAndStaysBetween) {
  const kvc::RopeConfig plain{.theta = 1e4};
  const kvc::RopeConfig llama3{
      .type = kvc::RopeType::llama3, .theta = 1e4, .factor = 8, .original_max_position_embeddings = 256};
  const auto before = kvc::rope_frequencies(plain, 64), after = kvc::rope_frequencies(llama3, 64);
  int kept = 0, slowed = 0, between = 0;
  for (size_t i = 0; i < before.size(); ++i) {
    const double turns = 256 * before[i] / (2 * M_PI);
    if (turns > 4) {
      ++kept;
      EXPECT_EQ(after[i], before[i]);
    } else if (turns < 1) {
      ++slowed;
      EXPECT_EQ(after[i], before[i] / 8);
    } else {
      ++between;
      EXPECT_LT(after[i], before[i]);
      EXPECT_GT(after[i], before[i] / 8);
    }
  }
  EXPECT_TRUE(kept > 0 && slowed > 0 && between > 0);
}

TEST(LayerNorm, AgreesWithItsFormula) {
  const auto x = at::randn({5, 33}, at::kDouble).add_(3), weight = at::rand({33}), bias = at::randn({33});
  const auto centred = x - x.mean(-1, true);
  const auto expected = centred / (centred.pow(2).mean(-1, true) + 1e-3).sqrt() * weight + bias;
  EXPECT_LT(distance(kvc::normalize(x.to(at::kFloat), {weight, bias}, 1e-3).to(at::kDouble), expected),
            2e-6);  // fp32, entries to 6
}

TEST(RmsNorm, AgreesWithItsFormula) {
  const auto x = at::randn({5, 33}, at::kDouble), weight = at::rand({33});
  const auto expected = x / (x.pow(2).mean(-1, true) + 1e-3).sqrt() * weight;
  EXPECT_LT(distance(kvc::normalize(x.to(at::kFloat), {weight, {}}, 1e-3).to(at::kDouble), expected), 1e-6);
}

}  // namespace
