// MXFP4 against its formula over the format's list of values, and a block worked by hand.
#include "method.h"

namespace kvc::conformance {
namespace {

// The nearest of the format's values times the block's power of two, by trying all of them, in float64.
double by_the_rule(double x, double top) {
  if (top == 0) return 0;
  const double scale = std::exp2(std::floor(std::log2(top)) - 2);
  double best = 0;
  for (const double value : {0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0}) {
    if (std::abs(std::abs(x) / scale - value) < std::abs(std::abs(x) / scale - best)) best = value;
  }
  return std::copysign(best * scale, x);
}

TEST(Mxfp4Rule, DecodingOneByOneFollowsTheFormula) {
  const ModelShape model{.n_heads = 4, .n_kv_heads = 2, .head_dim = 96};
  const auto input = ordinary_input(model, 120);
  const auto cache = Method("mxfp4").cache(model, input, 50);
  const auto got = cache->dequantize().k.contiguous(), x = input.k.to(at::kFloat).contiguous();
  const auto tops = x.unflatten(2, {3, 32}).abs().amax(-1).contiguous();
  for (int64_t i = 0; i < x.numel(); ++i) {
    const float expected =
        static_cast<float>(by_the_rule(x.const_data_ptr<float>()[i], tops.const_data_ptr<float>()[i / 32]));
    ASSERT_EQ(got.const_data_ptr<float>()[i], expected) << i << ": " << x.const_data_ptr<float>()[i];
  }
}

// Largest 7: e = 2 - 2, so the scale is 1, and 7 saturates at 6; ties go to the even code.
TEST(Mxfp4Rule, KnowsAWorkedExample) {
  auto x = at::zeros({1, 1, 64}), y = at::zeros({1, 1, 64});
  x.narrow(2, 0, 8).copy_(at::tensor({7.f, -7.f, 5.f, 3.5f, 2.5f, 1.75f, 0.75f, 0.25f}));
  y.narrow(2, 0, 8).copy_(at::tensor({6.f, -6.f, 4.f, 4.f, 2.f, 2.f, 1.f, 0.f}));
  x.narrow(2, 32, 2).copy_(at::tensor({0.001f, 0.0004f}));  // 2^-10 <= 0.001, so the scale is 2^-12
  y.narrow(2, 32, 2).copy_(at::tensor({4 / 4096.f, 1.5f / 4096.f}));
  const OpenCache cache("mxfp4", nullptr, {.head_dim = 64});
  cache.append(x, at::zeros_like(x));
  EXPECT_TRUE(at::equal(cache->dequantize().k, y)) << cache->dequantize().k;
  EXPECT_TRUE(at::equal(cache->dequantize().v, at::zeros_like(x)));
}

TEST(Mxfp4Bytes, OfThePaperAreAllThatIsHeld) {
  const ModelShape model{.n_heads = 4, .n_kv_heads = 2, .head_dim = 96};
  const Method mxfp4("mxfp4");
  EXPECT_EQ(mxfp4.cache(model, ordinary_input(model, 135), 65)->footprint().total_bytes(),
            mxfp4.compressor().paper_bytes(model, 65, 70));
}

}  // namespace
}  // namespace kvc::conformance
