// vLLM's presets against their formulas in float64, their bytes, and the conformance suite where no layer is left
// alone.
#include <bit>

#include "../lloyd_max.h"
#include "conformance/cases.h"
#include "cuda_emulator/emulated_device.h"
#include "kvc/quant/projection.h"
#include "method.h"
#include "support/message_of.h"
#include "support/normal.h"

namespace kvc::conformance {
namespace {

using nlohmann::json;
using test::normal;

const char* const kPresets[] = {"turboquant_k8v4", "turboquant_4bit_nc", "turboquant_k3v4_nc", "turboquant_3bit_nc"};

json every_layer(const std::string& preset, json more = json::object()) {
  more["preset"] = preset, more["protected_layers"] = 0;
  return more;
}

OpenCache made(const json& options, int64_t n_kv_heads, int64_t head_dim) {
  return {"turboquant", options, {.n_heads = 2 * n_kv_heads, .n_kv_heads = n_kv_heads, .head_dim = head_dim}};
}

// A key through the published steps in double: turned by Sylvester's matrix by its definition (the sign of the bits
// that i and j share), coded to the nearest level of N(0, 1), made as long as it was, turned back.
at::Tensor slow_key(const at::Tensor& key, int64_t bits, const at::Tensor& signs) {
  const int64_t d = key.size(0);
  auto turn = at::empty({d, d}, at::kDouble);
  for (int64_t i = 0; i < d; ++i) {
    for (int64_t j = 0; j < d; ++j) {
      turn[i][j] = (std::popcount(static_cast<uint64_t>(i & j)) % 2 ? -1 : 1) / std::sqrt(static_cast<double>(d));
    }
  }
  const auto x = key.to(at::kDouble);
  const auto z = turn.matmul(x * signs) / x.norm() * std::sqrt(static_cast<double>(d));
  auto coded = at::empty({d}, at::kDouble);
  for (int64_t j = 0; j < d; ++j) {
    double nearest = INFINITY;
    for (const double level : turboquant::lloyd_max(bits, 0).levels) {
      if (std::abs(level - z[j].item<double>()) < std::abs(nearest - z[j].item<double>())) nearest = level;
    }
    coded[j] = nearest;
  }
  return signs * turn.matmul(coded / coded.norm() * x.norm());
}

TEST(TurboquantPresets, KeysAreThePublishedStepsInFloat64) {
  constexpr int64_t D = 64, N = 6;
  const auto k = normal({1, N, D}, 1) * normal({1, 1, D}, 2).exp();
  for (const auto& [preset, bits] : {std::pair{"turboquant_4bit_nc", 4}, {"turboquant_k3v4_nc", 3}}) {
    for (const bool drawn : {false, true}) {
      auto options = every_layer(preset, {{"precision", "exact"}});
      if (drawn) options["signs"] = "drawn", options["seed"] = 9;
      const auto cache = made(options, 1, D);
      cache.append(k, k);
      const Projection normals(ProjectionKind::gaussian, 9, D, 1);
      const auto signs = drawn ? at::sign(normals.matrix().squeeze(1)).to(at::kDouble) : at::ones({D}, at::kDouble);
      const auto held = cache->dequantize().k;
      for (int64_t t = 0; t < N; ++t) EXPECT_LT(relative_error(held[0][t], slow_key(k[0][t], bits, signs)), 1e-5) << t;
    }
  }
}

// The correction of norms: codes make a vector shorter or longer, what is read is as long as what was given.
TEST(TurboquantPresets, KeysKeepTheirLength) {
  auto k = normal({2, 40, 128}, 3);
  k.select(1, 7).zero_();
  k.select(1, 9).mul_(1e-3f);
  const auto cache = made(every_layer("turboquant_3bit_nc"), 2, 128);
  cache.append(k, k);
  const auto lengths = cache->dequantize().k.norm(2, 2), expected = k.norm(2, 2);
  EXPECT_TRUE(at::allclose(lengths, expected, 0x1p-10, 1e-7));
  EXPECT_EQ(lengths.select(1, 7).max().item<float>(), 0);
}

TEST(TurboquantPresets, EightBitKeysAreAtensFloatsWithoutAScale) {
  auto k = normal({2, 30, 80}, 4) * 20;
  k.select(1, 3).mul_(100);  // beyond 448
  const auto cache = made(every_layer("turboquant_k8v4"), 2, 80);
  cache.append(k, k);
  const auto expected = k.clamp(-448, 448).to(at::kFloat8_e4m3fn).to(at::kFloat);
  EXPECT_TRUE(at::equal(cache->dequantize().k, expected));
}

// One scale and zero a token, rounded to fp16 before the codes are taken.
TEST(TurboquantPresets, ValuesAreEvenStepsBetweenATokensExtremes) {
  constexpr int64_t D = 64, N = 20;
  auto v = normal({1, N, D}, 5) + 3;
  v.select(1, 4).fill_(0.7f);  // no range: its smallest
  for (const auto& [preset, bits] : {std::pair{"turboquant_4bit_nc", 4}, {"turboquant_3bit_nc", 3}}) {
    const auto cache = made(every_layer(preset), 1, D);
    cache.append(v, v);
    const auto held = cache->dequantize().v;
    const int top = (1 << bits) - 1;
    for (int64_t t = 0; t < N; ++t) {
      const auto* x = v.const_data_ptr<float>() + t * D;
      const float low = *std::min_element(x, x + D), high = *std::max_element(x, x + D);
      const double zero = static_cast<c10::Half>(low), scale = static_cast<c10::Half>((high - low) / top);
      for (int64_t j = 0; j < D; ++j) {
        const double code = scale == 0 ? 0 : std::clamp(std::nearbyint((x[j] - zero) / scale), 0., double(top));
        ASSERT_NEAR(held[0][t][j].item<double>(), zero + scale * code, 2e-6) << preset << ", token " << t;
      }
    }
  }
}

TEST(TurboquantPresets, DecodingAttendsToWhatIsHeld) {
  for (const auto* preset : kPresets) {
    SCOPED_TRACE(preset);
    expect_decoding_holds(Method("turboquant", every_layer(preset)),
                          {.n_layers = 3, .n_heads = 6, .n_kv_heads = 2, .head_dim = 32}, 70, 80);
  }
}

// vLLM's slot of a token of one KV head of 128: 128 + 64 + 4, 64 + 2 + 64 + 4, 48 + 2 + 64 + 4, 48 + 2 + 48 + 4 bytes.
TEST(TurboquantPresets, BytesAreVllmsSlots) {
  const std::vector<int64_t> slots = {196, 134, 118, 102};
  const ModelShape shape{.n_layers = 1, .n_heads = 6, .n_kv_heads = 3, .head_dim = 128};
  for (size_t i = 0; i < slots.size(); ++i) {
    const auto cache = made(every_layer(kPresets[i]), 3, 128);
    for (int64_t n = 1; n <= 150; n += n == 1 ? 98 : 1) {
      const int64_t more = n - cache->length();
      const auto x = normal({3, more, 128}, static_cast<uint64_t>(n));
      cache.append(x, x);
      ASSERT_EQ(cache->footprint().total_bytes(), slots[i] * 3 * n) << kPresets[i];
      ASSERT_EQ(cache.compressor->paper_bytes(shape, 1, n - 1), static_cast<double>(slots[i] * 3 * n)) << kPresets[i];
    }
  }
}

// The first and last two of 30 layers are as they were, and the bytes of the others count by their share.
TEST(TurboquantPresets, ProtectedLayersAreExact) {
  const Method method("turboquant", {{"preset", "turboquant_3bit_nc"}});
  const ModelShape shape{.n_layers = 30, .n_heads = 2, .n_kv_heads = 2, .head_dim = 128};
  method.compressor().check_model(shape);
  const auto x = normal({2, 50, 128}, 6).to(at::kHalf).to(at::kFloat);
  int64_t bytes = 0;
  for (int64_t layer = 0; layer < 30; ++layer) {
    const auto cache = method.compressor().make_cache(layer_info(shape, layer, 1, {}));
    cache->append({.q = {}, .k = x, .v = x, .first_position = 0});
    bytes += cache->footprint().total_bytes();
    const bool left_alone = layer < 2 || layer >= 28;
    EXPECT_EQ(cache->n_encoded_tokens(), left_alone ? 0 : 50) << layer;
    EXPECT_EQ(at::equal(cache->dequantize().k, x) && at::equal(cache->dequantize().v, x), left_alone) << layer;
    if (left_alone) expect_attends(*cache, normal({2, 1, 128}, 7), 0.1);
  }
  EXPECT_EQ(bytes, 2 * 50 * (4 * 512 + 26 * 102));
  EXPECT_NEAR(method.compressor().paper_bytes(shape, 40, 10) * 30, static_cast<double>(bytes), 1e-6);
}

TEST(TurboquantPresets, WhatDoesNotFitIsRefusedWithTheReason) {
  const auto refusal = [](const json& options, const ModelShape& model) {
    return test::message_of([&] { Method("turboquant", options).compressor().check_model(model); });
  };
  const ModelShape deep{.n_layers = 30, .n_kv_heads = 2, .head_dim = 64};
  const json preset = {{"preset", "turboquant_4bit_nc"}};
  const auto with = [&](json more) { return more.update(preset), more; };
  EXPECT_EQ(refusal(preset, deep), "no error");
  EXPECT_EQ(refusal({{"preset", "turboquant_k8v4"}}, {.n_layers = 5, .head_dim = 80}), "no error");
  const std::vector<std::pair<std::string, std::string>> refused = {
      {refusal(preset, {.n_layers = 4, .head_dim = 64}), "2 protected layers at either end of 4 leave none"},
      {refusal(preset, {.n_layers = 30, .head_dim = 80}), "head_dim 80 with preset turboquant_4bit_nc"},
      {refusal(with({{"bits", 3}}), deep), "preset turboquant_4bit_nc with bits 3"},
      {refusal(with({{"keys", "inner_product"}}), deep), "keys inner_product, allowed: neither"},
      {refusal(with({{"seed", 5}}), deep), "with seed 5, allowed: with signs drawn"},
      {refusal({{"signs", "drawn"}}, deep), "signs drawn without a preset"},
      {refusal({{"preset", "turboquant_k8v4"}, {"signs", "drawn"}}, deep), "does not rotate keys"},
  };
  for (const auto& [text, reason] : refused) {
    EXPECT_NE(text.find(reason), std::string::npos) << text << "; expected: " << reason;
    EXPECT_EQ(text.rfind("turboquant: ", 0), 0u) << text;
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
  }
}

// The sweep of the conformance suite leaves presets out, since its models have fewer layers than these protect.
class TurboquantPreset : public testing::TestWithParam<const char*> {};

void expect_conforms(const json& options, const ModelShape& model) {
  for (const auto& check : all_checks()) {
    SCOPED_TRACE(concat(Case{options, model, ""}.label(), ": ", check.name));
    for (const auto& complaint : run_check(check, {plugin("turboquant"), options, model}).complaints) {
      ADD_FAILURE() << complaint;
    }
  }
}

TEST_P(TurboquantPreset, Conforms) {
  for (const auto& model : {model_shapes().front(), model_shapes().back()}) {
    expect_conforms(every_layer(GetParam()), model);
  }
}

TEST_P(TurboquantPreset, AttendsOnADeviceAsOnTheCpu) {
  const auto& model = model_shapes().front();
  const auto attended = [&](at::Device device) {
    const auto before = std::exchange(check_device(), device);
    const auto input = ordinary_input(model, 163);
    const Method method("turboquant", every_layer(GetParam()));
    const auto cache = method.compressor().make_cache(layer_info(model, 1, 7, {}, device));
    cache->append(tokens_of(input, 0, 150));
    for (int64_t t = 150; t < 163; ++t) cache->append(tokens_of(input, t, 1));
    const auto out = cache->attend(input.q.narrow(1, 162, 1), model.attention_scale).cpu();
    check_device() = before;
    return std::pair{out, cache->footprint().total_bytes()};
  };
  const auto [here, bytes] = attended(at::kCPU);
  const auto [there, bytes_there] = attended(emulated_device());
  EXPECT_LT(relative_error(there, here), 1e-3);
  EXPECT_EQ(bytes, bytes_there);
}

INSTANTIATE_TEST_SUITE_P(Turboquant, TurboquantPreset, testing::ValuesIn(kPresets),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace kvc::conformance
