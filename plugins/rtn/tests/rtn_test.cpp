// RTN against a loop in float64. The public code's records are in the census.
#include "method.h"

namespace kvc::conformance {
namespace {

// 2 bits: {-1, 0, 1}; half a step goes to 0, one and a half would go to 2 but 1 is the largest.
TEST(RtnRule, KnowsAWorkedExample) {
  const OpenCache cache("rtn", {{"bits", 2}}, {.head_dim = 4});
  const auto x = at::tensor({-4.f, 2.f, 2.5f, 1.f}).view({1, 1, 4});
  cache.append(x, -x);
  EXPECT_TRUE(at::equal(cache->dequantize().k.flatten(), at::tensor({-4.f, 0.f, 4.f, 0.f})));
  EXPECT_TRUE(at::equal(cache->dequantize().v.flatten(), at::tensor({4.f, 0.f, -4.f, 0.f})));
}

// One loop a token in float64, over heads together.
TEST(RtnRule, DecodingOneByOneFollowsTheFormula) {
  const ModelShape model{.n_heads = 4, .n_kv_heads = 2, .head_dim = 48};
  const auto input = ordinary_input(model, 320);
  for (const int64_t bits : {2, 4, 8}) {
    const double m = std::exp2(bits - 1) - 1;
    const auto got = Method("rtn", {{"bits", bits}, {"precision", "exact"}}).cache(model, input, 20)->dequantize().k;
    const auto x = input.k.to(at::kDouble);
    int64_t n_flipped = 0;
    for (int64_t t = 0; t < 320; ++t) {
      const auto token = x.select(1, t);
      const double step = std::max(token.abs().max().item<double>(), 1e-5) / m;
      const auto error = ((token / step).round() * step - got.select(1, t).to(at::kDouble)).abs();
      n_flipped += error.gt(1e-5).sum().item<int64_t>();  // a half in float64 may lie beside it in float32
      EXPECT_LE((token - got.select(1, t)).abs().max().item<double>(), step / 2 * (1 + 1e-5));
    }
    EXPECT_LE(n_flipped, 3) << bits << " bits";
  }
}

TEST(RtnRule, ATokensCodesDependOnNoOtherToken) {
  const ModelShape model{.n_heads = 2, .n_kv_heads = 2, .head_dim = 32};
  const auto input = ordinary_input(model, 150);
  const Method rtn("rtn");
  const auto at_once = rtn.cache(model, input, 150), one_by_one = rtn.cache(model, input, 1);
  EXPECT_TRUE(at::equal(at_once->dequantize().k, one_by_one->dequantize().k));
  EXPECT_EQ(at_once->footprint().total_bytes(), one_by_one->footprint().total_bytes());
}

TEST(RtnRule, ATokenBelowTheStepsFloorStaysInRange) {
  const ModelShape model{.n_heads = 1, .n_kv_heads = 1, .head_dim = 32};
  auto input = ordinary_input(model, 3);
  input.k.mul_(1e-7f), input.v.zero_();
  for (const int64_t bits : {2, 4, 8}) {
    const auto kv = Method("rtn", {{"bits", bits}}).cache(model, input, 1)->dequantize();
    EXPECT_LE(kv.k.abs().max().item<double>(), 1.3e-5);
    EXPECT_EQ(kv.v.abs().max().item<double>(), 0);
  }
}

// Table 2: LLaMA-7B on LAMBADA, 89 tokens, 46.7 MB at 16 bits; 23.3, 11.7, 5.8 at 8, 4, 2.
TEST(RtnBytes, OfThePaperArePrintedAsThePaperPrintsThem) {
  const ModelShape model{.n_layers = 32, .n_heads = 32, .n_kv_heads = 32, .head_dim = 128};
  for (const auto& [bits, printed] : {std::pair{8, 23.3}, {4, 11.7}, {2, 5.8}}) {
    EXPECT_NEAR(32 * Method("rtn", {{"bits", bits}}).compressor().paper_bytes(model, 89, 0) / 1e6, printed, 0.05);
  }
}

}  // namespace
}  // namespace kvc::conformance
