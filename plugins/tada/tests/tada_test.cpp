#include <gtest/gtest.h>

#include <algorithm>

#include "attention64.h"

namespace kvc::conformance {
namespace {

const LayerInfo kInfo{.n_heads = 4, .n_kv_heads = 2, .head_dim = 32};

// The formula, number by number in fp32: mean over heads, then min-max codes of each head's deviation.
at::Tensor slow_tada(const at::Tensor& x, int64_t bits) {
  const auto deviations = x.mean(0, true) - x;
  const auto low = deviations.amin(2, true), step = (deviations.amax(2, true) - low) / ((1 << bits) - 1);
  const auto codes = ((deviations - low) / step).round().clamp(0, (1 << bits) - 1);
  return x.mean(0, true) - (low + step * codes);
}

TEST(Tada, IsTheMeanMinusTheQuantizedDeviation) {
  const RandomTokens x(kInfo, 64);
  for (const int64_t bits : {2, 4, 8}) {
    const OpenCache cache("tada", {{"bits", bits}, {"recent", 0}, {"precision", "exact"}}, kInfo);
    cache->append(x.part(0, 64));
    EXPECT_LT((cache->dequantize().k - slow_tada(x.k, bits)).abs().max().item<float>(), 2e-6) << bits;
    EXPECT_LT((cache->dequantize().v - slow_tada(x.v, bits)).abs().max().item<float>(), 2e-6) << bits;
  }
}

// A vector common to all heads moves the mean and nothing else.
TEST(Tada, AShiftCommonToTheHeadsDoesNotChangeTheCodes) {
  const RandomTokens x(kInfo, 40);
  // Multiples of 1/8 keep sums exact, so that rounding cannot hide behind the shift.
  auto k = (x.k * 8).round() / 8, v = (x.v * 8).round() / 8;
  const auto shift = (at::randn({1, 40, 32}) * 80).round() / 8;
  for (const char* precision : {"exact", "real"}) {
    const nlohmann::json options = {{"bits", 2}, {"recent", 0}, {"precision", precision}};
    const OpenCache plain("tada", options, kInfo), shifted("tada", options, kInfo);
    plain->append({{}, k, v, 0});
    shifted->append({{}, k + shift, v + shift, 0});
    EXPECT_LT((shifted->dequantize().k - shift - plain->dequantize().k).abs().max().item<float>(), 2e-5) << precision;
    EXPECT_LT((shifted->dequantize().v - shift - plain->dequantize().v).abs().max().item<float>(), 2e-5) << precision;
  }
}

TEST(Tada, EqualHeadsAreExact) {
  const RandomTokens x(kInfo, 40);
  const auto same = x.k.narrow(0, 0, 1).expand({2, 40, 32});
  const OpenCache cache("tada", {{"bits", 2}, {"recent", 0}}, kInfo);
  cache->append({{}, same, same, 0});
  EXPECT_TRUE(at::equal(cache->dequantize().k, same));
}

// Half a step of each group, and what fp16 rounds the mean, step and minimum by.
TEST(Tada, ErrorStaysWithinHalfAStep) {
  const RandomTokens x(kInfo, 100);
  for (const int64_t bits : {2, 4, 8}) {
    const OpenCache cache("tada", {{"bits", bits}, {"recent", 0}}, kInfo);
    cache->append(x.part(0, 100));
    const auto deviation = x.k.mean(0, true) - x.k;
    const auto step = (deviation.amax(2, true) - deviation.amin(2, true)) / ((1 << bits) - 1);
    const auto slack = 0.0025 * deviation.abs().amax(2, true) + 0.0025;
    EXPECT_TRUE((cache->dequantize().k - x.k).abs().le(step / 2 + slack).all().item<bool>()) << bits;
  }
}

TEST(Tada, LayersGetTheirOwnBits) {
  const RandomTokens x(kInfo, 64);
  double last = 1e9;
  for (const int64_t layer : {3, 1, 0}) {  // 2, 4, 8 bits
    auto info = kInfo;
    info.n_layers = 4, info.layer = layer;
    const OpenCache cache("tada", {{"bits", "8,4,4,2"}, {"recent", 0}}, info);
    cache->append(x.part(0, 64));
    const double error = (cache->dequantize().k - x.k).norm().item<double>();
    EXPECT_LT(error, last / 3);
    last = error;
  }
  const auto& tada = plugin("tada");
  nlohmann::json resolved;
  EXPECT_EQ(tada.make({{"bits", " 8, 4,4,2"}}, &resolved)->bits(), 4.5);
  EXPECT_EQ(resolved.at("bits"), "8,4,4,2");
  EXPECT_EQ(tada.make({{"bits", 8}}, &resolved)->bits(), 8);
  EXPECT_EQ(resolved.at("bits"), "8");
  for (const char* text : {"", "4,", ",4", "4;2", "4,3", "x", "4,4 "}) {
    EXPECT_THROW(tada.make({{"bits", text}}), Error) << "'" << text << "'";
  }
}

// The paper's shares: LLaMA2-7B with 4 bits, "29%" (29.69), and with 24 layers of 4 and 8 of 2 bits, "27%" (26.56).
TEST(Tada, PaperBytesAreThePapers) {
  const ModelShape llama{.n_layers = 32, .n_heads = 32, .n_kv_heads = 32, .head_dim = 128};
  const double exact = 4.0 * 32 * 128 * 1000;
  const auto percent = [&](const std::string& bits, const ModelShape& model) {
    const OpenCache cache("tada", {{"bits", bits}}, kInfo);
    return 100 * cache.compressor->paper_bytes(model, 1000, 0) / exact * 32 / static_cast<double>(model.n_kv_heads);
  };
  std::string mixed, gqa;
  for (int layer = 0; layer < 32; ++layer) {
    mixed += std::string(layer ? "," : "") + (layer < 24 ? "4" : "2");
    gqa += std::string(layer ? "," : "") + (layer < 22 ? "4" : "2");
  }
  EXPECT_NEAR(percent("4", llama), 29.7, 0.05);
  EXPECT_NEAR(percent(mixed, llama), 26.56, 0.01);
  auto mistral = llama;
  mistral.n_kv_heads = 8;
  EXPECT_NEAR(percent(gqa, mistral), 35.16, 0.01);
}

TEST(Tada, DecodesFor300StepsLikeASlowReference) {
  RandomTokens x(kInfo, 340);
  const OpenCache cache("tada", {{"bits", 4}, {"recent", 32}, {"precision", "exact"}}, kInfo);
  cache->append(x.part(0, 40));
  // What is encoded, the reference reads through the slow formula.
  RandomTokens seen = x;
  const auto slow_k = slow_tada(x.k, 4), slow_v = slow_tada(x.v, 4);
  for (int64_t t = 40; t < 340; ++t) {
    cache->append(x.part(t, 1));
    const int64_t n = t / 32 * 32;
    ASSERT_EQ(cache->n_encoded_tokens(), n);
    if (t % 10 != 0 && t % 32 > 1) continue;
    seen.k = at::cat({slow_k.narrow(1, 0, n), x.k.narrow(1, n, 340 - n)}, 1);
    seen.v = at::cat({slow_v.narrow(1, 0, n), x.v.narrow(1, n, 340 - n)}, 1);
    std::vector<int64_t> all(static_cast<size_t>(t + 1));
    for (int64_t s = 0; s <= t; ++s) all[static_cast<size_t>(s)] = s;
    ASSERT_LT(attention_error(*cache.cache, seen, t, {all, all}), 5e-6) << t;
  }
}

}  // namespace
}  // namespace kvc::conformance
