// FP8 against ATen's own conversion, its pencil formula, and attention in float64.
#include <cmath>

#include "inputs.h"
#include "oracle.h"

namespace kvc::conformance {
namespace {

std::unique_ptr<Compressor> fp8(const nlohmann::json& options = nlohmann::json::object()) {
  static const PluginLibrary library(std::filesystem::path(KVC_BINARY_DIR) / "plugins" / "fp8.so");
  return library.make(options);
}

std::unique_ptr<LayerCache> filled(const Compressor& compressor, const ModelShape& model, const Input& input,
                                   int64_t n_prompt) {
  auto cache =
      compressor.make_cache({.n_heads = model.n_heads, .n_kv_heads = model.n_kv_heads, .head_dim = model.head_dim});
  cache->append(tokens_of(input, 0, n_prompt));
  for (int64_t t = n_prompt; t < input.k.size(1); ++t) cache->append(tokens_of(input, t, 1));
  return cache;
}

// 300 steps: the prompt's largest number of each head gives its scale, and ATen rounds.
TEST(Fp8Rule, DecodingOneByOneIsAtensConversion) {
  const ModelShape model{.n_heads = 4, .n_kv_heads = 2, .head_dim = 40};
  const auto input = ordinary_input(model, 330);
  for (const double headroom : {1.0, 2.0, 16.0}) {
    const auto cache = filled(*fp8({{"headroom", headroom}}), model, input, 30);
    const auto scale = input.k.narrow(1, 0, 30).abs().amax({1, 2}, true) * (headroom / 448);
    const auto expected = (input.k / scale).clamp(-448, 448).to(at::kFloat8_e4m3fn).to(at::kFloat) * scale;
    EXPECT_TRUE(at::equal(cache->dequantize().k, expected)) << headroom;
    const auto q = input.q.narrow(1, 329, 1);
    const auto k = cache->dequantize().k.to(at::kDouble).repeat_interleave(2, 0);
    const auto v = cache->dequantize().v.to(at::kDouble).repeat_interleave(2, 0);
    const auto out = at::matmul(at::softmax(at::matmul(q.to(at::kDouble), k.transpose(1, 2)) * 0.1, -1), v);
    EXPECT_LE((cache->attend(q, 0.1) - out).abs().max().item<double>(), 2e-5 * out.abs().max().item<double>());
  }
}

// Three mantissa bits: within 1/16 of each number down to 2^-6 of the unit, whatever the head's size.
TEST(Fp8Rule, ErrorIsASixteenthOfEachNumber) {
  const ModelShape model{.n_heads = 2, .n_kv_heads = 2, .head_dim = 64};
  auto input = ordinary_input(model, 200);
  input.k.select(0, 1).mul_(1e-3f);
  const auto kv = filled(*fp8(), model, input, 200)->dequantize();
  const auto smallest = input.k.abs().amax({1, 2}, true) * (2.0 / 448 * 0x1p-10);
  EXPECT_TRUE(((kv.k - input.k).abs() <= at::maximum(input.k.abs() / 16 * (1 + 1e-5), smallest)).all().item<bool>());
}

TEST(Fp8Rule, LaterTokensSaturateAndAPromptOfZerosDoesNotHurtThem) {
  const ModelShape model{.n_heads = 1, .n_kv_heads = 1, .head_dim = 16};
  auto input = ordinary_input(model, 3);
  input.k.fill_(1), input.k.select(1, 1).fill_(5), input.v.zero_(), input.v.select(1, 2).fill_(3);
  const auto kv = filled(*fp8(), model, input, 1)->dequantize();
  EXPECT_NEAR(kv.k.select(1, 1).max().item<double>(), 2, 1e-6);  // twice the prompt's largest
  EXPECT_NEAR(kv.k.select(1, 2).max().item<double>(), 1, 1e-6);
  EXPECT_EQ(kv.v.select(1, 2).min().item<float>(), 3);
}

TEST(Fp8Bytes, FollowThePencil) {
  const ModelShape model{.n_heads = 4, .n_kv_heads = 2, .head_dim = 40};
  for (const int64_t n_prompt : {1, 63, 64, 65, 129}) {
    const auto cache = filled(*fp8(), model, ordinary_input(model, n_prompt + 70), n_prompt);
    EXPECT_EQ(cache->footprint().total_bytes(), 2 * (2 * 40 * (n_prompt + 70) + 4 * 2));
  }
}

}  // namespace
}  // namespace kvc::conformance
