// Whole models with quantized matrices, rounded activations and SmoothQuant: Llama and OPT.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/safetensors.h"
#include "exact_cache.h"
#include "model/smooth_quant.h"
#include "model/transformer.h"
#include "support/message_of.h"
#include "support/small_llama.h"
#include "support/temp_folder.h"

namespace {

using kvc::test::message_of;
using kvc::test::TempFolder;
using testing::HasSubstr;
using Tensors = std::map<std::string, at::Tensor>;

constexpr int64_t kHidden = 48, kMlp = 96, kHeads = 4, kVocab = 61, kLayers = 2;

const kvc::test::SmallLlama kLlama{kHidden, kMlp, kHeads, kHeads, kHidden / kHeads, kVocab, kLayers};

std::string opt(bool norm_before) {
  return kvc::concat(
      R"({"architectures":["OPTForCausalLM"],"hidden_size":48,"word_embed_proj_dim":48,"ffn_dim":96,
"num_hidden_layers":2,"num_attention_heads":4,"vocab_size":61,"max_position_embeddings":300,
"activation_function":"relu","do_layer_norm_before":)",
      norm_before ? "true}" : "false}");
}

bool is_layer_matrix(const std::string& name) {
  return name.find("layers.") != std::string::npos && name.find("norm") == std::string::npos &&
         name.ends_with(".weight");
}

Tensors random_llama() {
  auto w = kLlama.weights();
  for (auto& [name, weight] : w)
    if (name.find("norm") != std::string::npos) weight = at::rand({kHidden}) * 3 + 0.1;
  return w;
}

Tensors random_opt(bool norm_before) {
  Tensors w;
  const auto linear = [&](const std::string& name, int64_t n, int64_t k) {
    w[name + ".weight"] = at::randn({n, k}) * 0.15;
    w[name + ".bias"] = at::randn({n}) * 0.1;
  };
  const auto norm = [&](const std::string& name) {
    w[name + ".weight"] = at::rand({kHidden}) * 3 + 0.1;
    w[name + ".bias"] = at::randn({kHidden}) * 0.1;
  };
  w["model.decoder.embed_tokens.weight"] = at::randn({kVocab, kHidden}) * 0.15;
  w["model.decoder.embed_positions.weight"] = at::randn({302, kHidden}) * 0.15;
  if (norm_before) norm("model.decoder.final_layer_norm");
  for (int64_t layer = 0; layer < kLayers; ++layer) {
    const auto prefix = kvc::concat("model.decoder.layers.", layer, ".");
    norm(prefix + "self_attn_layer_norm");
    norm(prefix + "final_layer_norm");
    for (const char* name : {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.out_proj"}) {
      linear(prefix + name, kHidden, kHidden);
    }
    linear(prefix + "fc1", kMlp, kHidden);
    linear(prefix + "fc2", kHidden, kMlp);
  }
  return w;
}

kvc::Transformer load(const std::string& config, const Tensors& weights, const kvc::Quantization& quantization = {}) {
  const TempFolder dir;
  kvc::write_safetensors(dir / "model.safetensors", weights);
  dir.write("config.json", config);
  return kvc::Transformer::load(dir.path(), {.quantization = quantization});
}

std::vector<int64_t> some_ids(int64_t n) { return kLlama.ids(n); }

at::Tensor logits_of(const kvc::Transformer& model) { return model.prefill(some_ids(90), nullptr, 90); }

double relative(const at::Tensor& a, const at::Tensor& b) { return (a.sub(b).norm() / b.norm()).item<double>(); }

struct Family {
  const char* name;
  std::string config;
  Tensors (*weights)();
};
class QuantizedModel : public testing::TestWithParam<Family> {
 protected:
  void SetUp() override {
    at::manual_seed(11);
    weights_ = GetParam().weights();
  }
  kvc::Transformer load(const kvc::Quantization& quantization = {}) {
    return ::load(GetParam().config, weights_, quantization);
  }
  Tensors weights_;
};

// The same checkpoint with its matrices rounded beforehand, formula 0.2 by row or by group, without our quantizer.
TEST_P(QuantizedModel, EqualsACheckpointRoundedBeforehand) {
  for (const auto& [bits, group] : {std::pair<int64_t, int64_t>{8, 0}, {4, 0}, {4, 16}, {3, 48}, {2, 24}}) {
    auto rounded = weights_;
    for (auto& [name, w] : rounded) {
      if (!is_layer_matrix(name)) continue;
      const auto groups = w.reshape({-1, group ? group : w.size(1)});
      const auto scale = std::get<0>(groups.abs().max(1, true)).clamp_min(1e-5).div(double((1 << (bits - 1)) - 1));
      w = groups.div(scale).round().mul(scale).reshape(w.sizes()).contiguous();
    }
    const auto model = load({.weight_bits = bits, .group_size = group});
    EXPECT_TRUE(at::equal(logits_of(model), logits_of(::load(GetParam().config, rounded)))) << bits << " " << group;
    EXPECT_GT(relative(logits_of(model), logits_of(load())), 1e-4) << bits;
  }
}

TEST_P(QuantizedModel, WithoutQuantizationIsTheSameToTheBit) {
  EXPECT_TRUE(at::equal(logits_of(load({.smoothing = std::nullopt})), logits_of(load())));
}

// Bytes that codes save: of each of the layers' matrices 4 bytes a weight become 1 and 4 a row, or half and 4 a group.
TEST_P(QuantizedModel, HoldsTheBytesOfItsCodes) {
  int64_t n_weights = 0, n_rows = 0;
  for (const auto& [name, w] : weights_) {
    if (is_layer_matrix(name)) n_weights += w.numel(), n_rows += w.size(0);
  }
  const int64_t full = load().weights_bytes();
  EXPECT_EQ(load({.weight_bits = 8}).weights_bytes(), full - 3 * n_weights + 4 * n_rows);
  EXPECT_EQ(load({.weight_bits = 4}).weights_bytes(), full - 4 * n_weights + n_weights / 2 + 4 * n_rows);
  EXPECT_EQ(load({.weight_bits = 4, .group_size = 16}).weights_bytes(),
            full - 4 * n_weights + n_weights / 2 + 4 * n_weights / 16);
}

TEST_P(QuantizedModel, DecodesWhatItPrefills) {
  const auto ids = some_ids(20);
  for (const auto& quantization :
       {kvc::Quantization{.weight_bits = 4, .group_size = 16}, {.weight_bits = 8, .activation_bits = 8}}) {
    const auto model = load(quantization);
    std::vector<std::unique_ptr<kvc::LayerCache>> caches;
    const auto on_layer = [&](int64_t layer, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
      caches.push_back(std::make_unique<kvc::test::ExactCache>(model.layer_info(layer, 0)));
      caches.back()->append({q, k, v, 0});
    };
    model.prefill(std::span(ids).first(19), on_layer);
    const auto stepped = model.decode_step(ids[19], 19, caches);
    // An input next to the middle between two codes may fall on either side: one step of 127.
    EXPECT_LT(relative(stepped, model.prefill(ids, nullptr)[0]), quantization.activation_bits ? 5e-3 : 1e-5);
  }
}

TEST_P(QuantizedModel, SmoothingChangesNoFunction) {
  const auto plain = load();
  const auto maxima = kvc::measure_input_maxima(plain, {some_ids(70), some_ids(33)});
  for (const double alpha : {0.0, 0.5, 0.8, 1.0}) {
    const auto smooth = load({.smoothing = kvc::Smoothing{alpha, maxima}});
    EXPECT_LT(relative(logits_of(smooth), logits_of(plain)), 1e-5) << alpha;
    EXPECT_FALSE(at::equal(logits_of(smooth), logits_of(plain))) << alpha;
  }
}

// At alpha 1 each input channel of the calibration prompt is divided by its own maximum: all of them are 1.
TEST_P(QuantizedModel, AtAlphaOneTheInputsAreAllAsLarge) {
  const auto plain = load();
  const std::vector<std::vector<int64_t>> prompts = {some_ids(70)};
  const auto maxima = kvc::measure_input_maxima(plain, prompts);
  const auto again = kvc::measure_input_maxima(load({.smoothing = kvc::Smoothing{1.0, maxima}}), prompts);
  for (const auto* all : {&again.qkv, &again.up}) {
    for (const auto& x : *all) EXPECT_LT(x.sub(1).abs().max().item<double>(), 1e-4);
  }
}

TEST_P(QuantizedModel, SmoothingHelpsRoundedActivationsWithOutlyingChannels) {
  for (auto& [name, w] : weights_) {
    if (name.find("layers.") != std::string::npos && name.find("norm.weight") != std::string::npos) w[5] = 60;
  }
  const auto plain = load();
  const auto maxima = kvc::measure_input_maxima(plain, {some_ids(90)});
  const auto exact = logits_of(plain);
  const double rough = relative(logits_of(load({.weight_bits = 8, .activation_bits = 8})), exact);
  const double smooth = relative(
      logits_of(load({.weight_bits = 8, .activation_bits = 8, .smoothing = kvc::Smoothing{0.5, maxima}})), exact);
  EXPECT_LT(smooth, rough);
}

INSTANTIATE_TEST_SUITE_P(Families, QuantizedModel,
                         testing::Values(Family{"Llama", kLlama.config().dump(), [] { return random_llama(); }},
                                         Family{"OPT", opt(true), [] { return random_opt(true); }}),
                         [](const auto& info) { return info.param.name; });

// Layer 0 reads normed embeddings: max over tokens of |x / sqrt(mean x^2 + eps) * weight|, in double. The rows that
// fill up a bucket of 64 are no tokens.
TEST(InputMaxima, AreThoseOfTheFirstLayersNorm) {
  at::manual_seed(12);
  const auto weights = random_llama();
  const auto ids = some_ids(5);
  const auto maxima = kvc::measure_input_maxima(load(kLlama.config().dump(), weights), {ids});
  at::Tensor expected = at::zeros({kHidden}, at::kDouble);
  for (const int64_t id : ids) {
    const auto x = weights.at("model.embed_tokens.weight")[id].to(at::kDouble);
    const auto normed = x / (x.square().mean() + 1e-5).sqrt() * weights.at("model.layers.0.input_layernorm.weight");
    expected = at::maximum(expected, normed.abs());
  }
  EXPECT_LT(maxima.qkv[0].sub(expected).abs().max().item<double>(), 1e-5);
  EXPECT_EQ(maxima.up.size(), 2u);
}

// LayerNorm of one token's embedding and position, in double. Rows of zeros would give the bias, which is larger where
// the token's value has the other sign.
TEST(InputMaxima, OfRowsThatAreNoTokensAreLeftOut) {
  at::manual_seed(13);
  const auto weights = random_opt(true);
  const auto maxima = kvc::measure_input_maxima(load(opt(true), weights), {{7}});
  const auto x =
      (weights.at("model.decoder.embed_tokens.weight")[7] + weights.at("model.decoder.embed_positions.weight")[2])
          .to(at::kDouble);
  const auto centred = x - x.mean();
  const auto prefix = "model.decoder.layers.0.self_attn_layer_norm";
  const auto normed = centred / (centred.square().mean() + 1e-5).sqrt() * weights.at(kvc::concat(prefix, ".weight")) +
                      weights.at(kvc::concat(prefix, ".bias"));
  EXPECT_LT(maxima.qkv[0].sub(normed.abs()).abs().max().item<double>(), 1e-5);
  EXPECT_TRUE(at::any(weights.at(kvc::concat(prefix, ".bias")).abs().gt(normed.abs())).item<bool>());
}

TEST(Smoothing, IsRefusedWhereNormsStandBehind) {
  at::manual_seed(14);
  const auto zeros = std::vector<at::Tensor>(2, at::ones({kHidden}));
  EXPECT_THAT(message_of([&] {
                load(opt(false), random_opt(false), {.smoothing = kvc::Smoothing{0.5, {zeros, zeros}}});
              }),
              HasSubstr("smooth_quant: this model has its norms after"));
}

}  // namespace
