// INT8 against loops in double, its bytes, the failure of a scale of 1, and scales that are learned.
#include "kvc/calibration.h"
#include "method.h"
#include "support/message_of.h"
#include "support/normal.h"

namespace kvc::conformance {
namespace {

using nlohmann::json;
using test::normal;

const LayerInfo kInfo{.n_heads = 4, .n_kv_heads = 2, .head_dim = 40};

// Each number of x [H, T, D] by scale(h, t).
template <class Scale>
void expect_rounded(const at::Tensor& held, const at::Tensor& x, Scale scale) {
  const int64_t n = x.size(1), d = x.size(2);
  for (int64_t h = 0; h < x.size(0); ++h) {
    for (int64_t t = 0; t < n; ++t) {
      const double s = scale(h, t);
      for (int64_t j = 0; j < d; ++j) {
        const int64_t i = (h * n + t) * d + j;
        const double code = s == 0 ? 0 : std::clamp(std::nearbyint(x.const_data_ptr<float>()[i] / s), -127., 127.);
        ASSERT_NEAR(held.const_data_ptr<float>()[i], s * code, 1e-6 * s * 127) << h << ", " << t << ", " << j;
      }
    }
  }
}

TEST(Int8, EachTokenAndHeadHasItsLargestNumberOver127) {
  auto x = normal({2, 90, 40}, 1) * normal({2, 90, 1}, 2).exp();
  x[1].select(0, 80).zero_();
  for (const int64_t bits : {16, 32}) {
    const OpenCache cache("int8", {{"scale_bits", bits}}, kInfo);
    cache.append(x.narrow(1, 0, 70).contiguous(), x.narrow(1, 0, 70).contiguous());
    for (int64_t t = 70; t < 90; ++t) cache.append(x.narrow(1, t, 1), x.narrow(1, t, 1));
    expect_rounded(cache->dequantize().k, x, [&](int64_t h, int64_t t) {
      const float scale = x[h][t].abs().max().item<float>() / 127;
      return static_cast<double>(bits == 16 ? static_cast<float>(static_cast<c10::Half>(scale)) : scale);
    });
    expect_attends(*cache.cache, normal({4, 1, 40}, 3), 0.2);
  }
}

TEST(Int8, AScaleOfTheTensorRoundsAllAlikeAndSaturates) {
  auto x = normal({2, 90, 40}, 4);
  x.select(1, 5).mul_(1000);
  const OpenCache cache("int8", {{"scales", "tensor"}, {"k_scale", 0.03}, {"v_scale", 0.5}}, kInfo);
  cache.append(x.narrow(1, 0, 70).contiguous(), x.narrow(1, 0, 70).contiguous());
  for (int64_t t = 70; t < 90; ++t) cache.append(x.narrow(1, t, 1), x.narrow(1, t, 1));
  const auto held = cache->dequantize();
  expect_rounded(held.k, x, [](int64_t, int64_t) { return 0.03f; });
  expect_rounded(held.v, x, [](int64_t, int64_t) { return 0.5f; });
  EXPECT_NEAR(held.k.max().item<double>(), 127 * 0.03, 1e-5);
  expect_attends(*cache.cache, normal({4, 1, 40}, 5), 0.2);
}

// What an engine does without scales in the checkpoint: whole numbers, and nothing of what is below a half.
TEST(Int8, AScaleOfOneLosesSmallNumbers) {
  const auto x = normal({2, 50, 40}, 6);
  const OpenCache cache("int8", {{"scales", "tensor"}}, kInfo);
  cache.append(x * 0.1f, x);
  const auto held = cache->dequantize();
  EXPECT_EQ(held.k.abs().max().item<float>(), 0);
  EXPECT_TRUE(at::equal(held.v, x.round()));
  // Of N(0, 1) rounded to whole numbers, nearly the error of a uniform one in a cell: 1/12.
  EXPECT_NEAR((held.v - x).square().mean().item<double>(), 1. / 12, 0.003);
}

TEST(Int8, BytesAreTheClosedForm) {
  for (const auto& [head_dim, words] : {std::pair<int64_t, int64_t>{64, 16}, {40, 10}, {30, 8}}) {
    const LayerInfo info{.n_heads = 6, .n_kv_heads = 3, .head_dim = head_dim};
    const OpenCache by_token("int8", nullptr, info), narrow("int8", {{"scale_bits", 16}}, info),
        of_tensor("int8", {{"scales", "tensor"}}, info);
    for (int64_t n = 1; n < 140; n += n == 1 ? 63 : 1) {
      const auto x = normal({3, n - by_token->length(), head_dim}, static_cast<uint64_t>(n));
      by_token.append(x, x), narrow.append(x, x), of_tensor.append(x, x);
      ASSERT_EQ(by_token->footprint().total_bytes(), 2 * 3 * n * (4 * words + 4)) << n;
      ASSERT_EQ(narrow->footprint().total_bytes(), 2 * 3 * n * (4 * words + 2)) << n;
      ASSERT_EQ(of_tensor->footprint().total_bytes(), 2 * (3 * n * 4 * words + 4)) << n;
    }
  }
  const ModelShape shape{.n_kv_heads = 8, .head_dim = 128};
  EXPECT_EQ(Method("int8").compressor().paper_bytes(shape, 90, 10), 2 * 8 * 100 * (128 + 4));
  EXPECT_EQ(Method("int8", {{"scales", "tensor"}}).compressor().paper_bytes(shape, 90, 10), 2 * 8 * 100 * 128);
}

const ModelShape kModel{.n_layers = 2, .n_heads = 4, .n_kv_heads = 2, .head_dim = 40};
const json kCalibrated = {{"scales", "tensor"}, {"calibration", KVC_BINARY_DIR "/CMakeCache.txt"}};

TEST(Int8, LearnsTheLargestNumberOfEachLayer) {
  const auto compressor = plugin("int8").make(kCalibrated);
  auto& calibrated = dynamic_cast<Calibrated&>(*compressor);
  const auto calibrator = calibrated.make_calibrator(kModel);
  const auto x = normal({2, 30, 40}, 7);
  const double largest = x.abs().max().item<double>();
  for (const float size : {0.5f, 1.f, 0.25f}) {
    calibrator->observe(layer_info(kModel, 0, 0, {}), {.k = x * size, .v = 3 * size * x});
    calibrator->observe(layer_info(kModel, 1, 0, {}), {.k = 10 * size * x, .v = size * x});
  }
  calibrated.load(kModel, calibrator->finish());
  const double factors[2][2] = {{1, 3}, {10, 1}};
  for (int64_t layer = 0; layer < 2; ++layer) {
    const auto cache = compressor->make_cache(layer_info(kModel, layer, 0, {}));
    cache->append({.q = {}, .k = 100 * x, .v = 100 * x, .first_position = 0});  // all saturate
    const auto held = cache->dequantize();
    EXPECT_NEAR(held.k.max().item<double>(), factors[layer][0] * largest, 1e-4 * largest) << layer;
    EXPECT_NEAR(held.v.max().item<double>(), factors[layer][1] * largest, 1e-4 * largest) << layer;
  }
}

TEST(Int8, WhatDoesNotFitIsRefusedWithTheReason) {
  const auto refusal = [](const json& options) { return test::message_of([&] { Method("int8", options); }); };
  const auto refused_load = [](const NamedTensors& tensors) {
    return test::message_of([&] {
      const auto compressor = plugin("int8").make(kCalibrated);
      dynamic_cast<Calibrated&>(*compressor).load(kModel, tensors);
    });
  };
  const auto two = at::ones({2, 2}, at::kFloat);
  auto both = kCalibrated;
  both["k_scale"] = 0.1;
  const std::vector<std::pair<std::string, std::string>> refused = {
      {refusal({{"k_scale", 0.1}}), "k_scale 0.1 and v_scale 1 with scales token_head"},
      {refusal({{"calibration", KVC_BINARY_DIR "/CMakeCache.txt"}}), "with scales token_head"},
      {refusal(both), "together with a calibration"},
      {refused_load({{"k.largest", two}}), "no tensor 'v.largest'"},
      {refused_load({{"k.largest", at::ones({3, 2}, at::kFloat)}, {"v.largest", two}}), "this model needs [2, 2]"},
      {refused_load({{"k.largest", two * 0}, {"v.largest", two}}), "k.largest of layer 0 is 0"},
      {refused_load({{"k.largest", two}, {"v.largest", two / 0}}),
       "v.largest has values that are negative or not finite"},
  };
  for (const auto& [text, reason] : refused) {
    EXPECT_NE(text.find(reason), std::string::npos) << text << "; expected: " << reason;
    EXPECT_EQ(text.rfind("int8: ", 0), 0u) << text;
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace kvc::conformance
