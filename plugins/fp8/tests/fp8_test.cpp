// FP8 against ATen's own conversion, and attention in float64.
#include <kvc/calibration.h>

#include "method.h"
#include "support/message_of.h"

namespace kvc::conformance {
namespace {

// 300 steps: the prompt's largest number of each head gives its scale, and ATen rounds.
TEST(Fp8Rule, DecodingOneByOneIsAtensConversion) {
  const ModelShape model{.n_heads = 4, .n_kv_heads = 2, .head_dim = 40};
  const auto input = ordinary_input(model, 330);
  for (const double headroom : {1.0, 2.0, 16.0}) {
    const auto cache = Method("fp8", {{"headroom", headroom}}).cache(model, input, 30);
    const auto scale = input.k.narrow(1, 0, 30).abs().amax({1, 2}, true) * (headroom / 448);
    const auto expected = (input.k / scale).clamp(-448, 448).to(at::kFloat8_e4m3fn).to(at::kFloat) * scale;
    EXPECT_TRUE(at::equal(cache->dequantize().k, expected)) << headroom;
    expect_attends(*cache, input.q.narrow(1, 329, 1), 0.1);
  }
}

// Three mantissa bits: within 1/16 of each number down to 2^-6 of the unit, whatever the head's size.
TEST(Fp8Rule, ErrorIsASixteenthOfEachNumber) {
  const ModelShape model{.n_heads = 2, .n_kv_heads = 2, .head_dim = 64};
  auto input = ordinary_input(model, 200);
  input.k.select(0, 1).mul_(1e-3f);
  const auto kv = Method("fp8").cache(model, input, 200)->dequantize();
  const auto smallest = input.k.abs().amax({1, 2}, true) * (2.0 / 448 * 0x1p-10);
  EXPECT_TRUE(((kv.k - input.k).abs() <= at::maximum(input.k.abs() / 16 * (1 + 1e-5), smallest)).all().item<bool>());
}

// By hand: 448 is the largest number and 2^-9 the smallest; half of that goes to 0.
TEST(Fp8Rule, AScaleOfOneLosesSmallNumbersAndCutsLargeOnes) {
  const OpenCache cache("fp8", {{"scale", "one"}}, {.head_dim = 8});
  const auto x = at::tensor({1.f, 1000.f, -1000.f, 0x1p-9f, 0x1p-10f, -0x1p-11f, 17.f, 0.f}).view({1, 1, 8});
  const auto y = at::tensor({1.f, 448.f, -448.f, 0x1p-9f, 0.f, 0.f, 16.f, 0.f});
  cache.append(x, x);
  EXPECT_TRUE(at::equal(cache->dequantize().k.flatten(), y));
}

// Two mantissa bits, and the range of fp16; ATen rounds.
TEST(Fp8Rule, FormatE5m2IsAtensConversion) {
  const ModelShape model{.n_heads = 4, .n_kv_heads = 2, .head_dim = 40};
  const auto input = ordinary_input(model, 330);
  const auto rounded = [](const at::Tensor& x) { return x.clamp(-57344, 57344).to(at::kFloat8_e5m2).to(at::kFloat); };
  const auto by_prompt = Method("fp8", {{"format", "e5m2"}}).cache(model, input, 30);
  const auto scale = input.k.narrow(1, 0, 30).abs().amax({1, 2}, true) * (2.0 / 57344);
  EXPECT_TRUE(at::equal(by_prompt->dequantize().k, rounded(input.k / scale) * scale));
  expect_attends(*by_prompt, input.q.narrow(1, 329, 1), 0.2);
  const auto by_one = Method("fp8", {{"format", "e5m2"}, {"scale", "one"}}).cache(model, input, 30);
  EXPECT_TRUE(at::equal(by_one->dequantize().v, rounded(input.v)));
}

// As serving engines: scales are known before the run, 448 of them being the largest number that the texts showed.
TEST(Fp8Rule, ACalibrationGivesTheScalesOfEachLayerAndHead) {
  const ModelShape model{.n_layers = 2, .n_heads = 4, .n_kv_heads = 2, .head_dim = 40};
  const auto input = ordinary_input(model, 60);
  for (const char* granularity : {"head", "tensor"}) {
    const auto compressor =
        plugin("fp8").make({{"granularity", granularity}, {"calibration", KVC_BINARY_DIR "/CMakeCache.txt"}});
    auto& calibrated = dynamic_cast<Calibrated&>(*compressor);
    const auto calibrator = calibrated.make_calibrator(model);
    for (const float size : {0.25f, 0.5f}) {
      calibrator->observe(layer_info(model, 1, 0, {}), {.k = size * input.k, .v = 3 * size * input.v});
    }
    calibrated.load(model, calibrator->finish());
    const auto cache = compressor->make_cache(layer_info(model, 1, 0, {}));
    cache->append({.q = {}, .k = input.k, .v = input.v, .first_position = 0});  // K's largest are twice what was seen
    const bool by_head = std::string(granularity) == "head";
    const auto largest = [&](const at::Tensor& x) { return by_head ? x.abs().amax({1, 2}, true) : x.abs().amax(); };
    const auto stored = [](const at::Tensor& x, const at::Tensor& scale) {
      return (x / scale).clamp(-448, 448).to(at::kFloat8_e4m3fn).to(at::kFloat) * scale;
    };
    const auto held = cache->dequantize();
    EXPECT_TRUE(at::allclose(held.k, stored(input.k, largest(input.k * 0.5) / 448), 1e-6, 0)) << granularity;
    EXPECT_TRUE(at::allclose(held.v, stored(input.v, largest(input.v * 1.5) / 448), 1e-6, 0)) << granularity;
  }
  EXPECT_NE(test::message_of([] {
              Method("fp8", {{"scale", "one"}, {"calibration", KVC_BINARY_DIR "/CMakeCache.txt"}});
            }).find("expected one of the two"),
            std::string::npos);
}

// As transformers' Fp8QuantizedLayer: amax of the first update over all heads, frozen; later tokens are clamped.
TEST(Fp8Rule, GranularityTensorHasOneScaleForAllHeads) {
  const ModelShape model{.n_heads = 4, .n_kv_heads = 2, .head_dim = 40};
  const auto input = ordinary_input(model, 60);
  const auto cache = Method("fp8", {{"headroom", 1.0}, {"granularity", "tensor"}}).cache(model, input, 30);
  const auto scale = input.k.narrow(1, 0, 30).abs().amax() / 448;
  const auto expected = (input.k / scale).clamp(-448, 448).to(at::kFloat8_e4m3fn).to(at::kFloat) * scale;
  EXPECT_TRUE(at::allclose(cache->dequantize().k, expected, 1e-6, 0));
}

TEST(Fp8Rule, LaterTokensSaturateAndAPromptOfZerosDoesNotHurtThem) {
  const ModelShape model{.n_heads = 1, .n_kv_heads = 1, .head_dim = 16};
  auto input = ordinary_input(model, 3);
  input.k.fill_(1), input.k.select(1, 1).fill_(5), input.v.zero_(), input.v.select(1, 2).fill_(3);
  const auto kv = Method("fp8").cache(model, input, 1)->dequantize();
  EXPECT_NEAR(kv.k.select(1, 1).max().item<double>(), 2, 1e-6);  // twice the prompt's largest
  EXPECT_NEAR(kv.k.select(1, 2).max().item<double>(), 1, 1e-6);
  EXPECT_EQ(kv.v.select(1, 2).min().item<float>(), 3);
}

}  // namespace
}  // namespace kvc::conformance
