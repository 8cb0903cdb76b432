// NVFP4 against its formula over the format's list of values, and attention in float64.
#include "method.h"

namespace kvc::conformance {
namespace {

// The nearest of the format's published values, by trying all of them; ATen rounds the block's scale.
at::Tensor by_the_rule(const at::Tensor& x, int64_t n_prompt, double headroom) {
  const auto global = x.narrow(1, 0, n_prompt).abs().max() * (headroom / (6 * 448));
  const auto blocks = x.reshape({x.size(0), x.size(1), -1, 16});
  const auto scales = (blocks.abs().amax(-1, true) / (global * 6)).clamp_max(448).to(at::kFloat8_e4m3fn).to(at::kFloat);
  const auto step = scales * global;
  const auto values = at::tensor({0.f, 0.5f, 1.f, 1.5f, 2.f, 3.f, 4.f, 6.f});
  const auto distance = ((blocks / step).abs().unsqueeze(-1) - values).abs();
  return (values.index_select(0, distance.argmin(-1).flatten()).view(blocks.sizes()) * blocks.sign() * step)
      .masked_fill(step == 0, 0)
      .view(x.sizes());
}

TEST(Nvfp4Rule, DecodingOneByOneFollowsTheFormula) {
  const ModelShape model{.n_heads = 4, .n_kv_heads = 2, .head_dim = 48};
  const auto input = ordinary_input(model, 330);
  for (const double headroom : {1.0, 2.0, 16.0}) {
    const auto cache = Method("nvfp4", {{"headroom", headroom}}).cache(model, input, 30);
    const auto difference = (cache->dequantize().k - by_the_rule(input.k, 30, headroom)).abs();
    EXPECT_LE(difference.gt(1e-5).sum().item<int64_t>(), 3) << headroom;  // a middle may go either way
    expect_attends(*cache, input.q.narrow(1, 329, 1), 0.1);
  }
}

// One block, worked by hand: largest 12, so g = 12/2688 at headroom 1, s = 448, step 2.
TEST(Nvfp4Rule, KnowsAWorkedExample) {
  const OpenCache cache("nvfp4", {{"headroom", 1}}, {.head_dim = 16});
  const auto x =
      at::tensor({12.f, -12.f, 8.1f, 7.1f, 6.9f, 5.1f, 4.9f, 4.f, 3.6f, 3.4f, 2.f, 1.6f, 1.4f, 0.6f, 0.4f, 0.f});
  const auto y = at::tensor({12.f, -12.f, 8.f, 8.f, 6.f, 6.f, 4.f, 4.f, 4.f, 3.f, 2.f, 2.f, 1.f, 1.f, 0.f, 0.f});
  cache.append(x.view({1, 1, 16}), x.view({1, 1, 16}));
  EXPECT_LE((cache->dequantize().k.flatten() - y).abs().max().item<double>(), 1e-5);
}

TEST(Nvfp4Rule, LaterTokensSaturateAndAPromptOfZerosDoesNotHurtThem) {
  const ModelShape model{.n_heads = 1, .n_kv_heads = 1, .head_dim = 16};
  auto input = ordinary_input(model, 3);
  input.k.fill_(1), input.k.select(1, 1).fill_(5), input.v.zero_(), input.v.select(1, 2).fill_(3);
  const auto kv = Method("nvfp4").cache(model, input, 1)->dequantize();
  EXPECT_NEAR(kv.k.select(1, 1).max().item<double>(), 2, 1e-5);  // twice the prompt's largest
  EXPECT_NEAR(kv.k.select(1, 2).max().item<double>(), 1, 1e-5);
  EXPECT_NEAR(kv.v.select(1, 2).min().item<double>(), 3, 3.0 / 16);
}

// By hand: blocks' largest numbers are 3 (s = 0.5), 6 * 2^-11 (s rounds to 0) and 5000 (s saturates at 448).
TEST(Nvfp4Rule, AScaleOfOneLosesSmallBlocksAndCutsLargeOnes) {
  const OpenCache cache("nvfp4", {{"scale", "one"}}, {.head_dim = 48});
  const auto x = at::cat({at::full({16}, 3.f), at::full({16}, 6 * 0x1p-11f), at::full({16}, -5000.f)}).view({1, 1, 48});
  cache.append(x, x);
  const auto k = cache->dequantize().k.flatten();
  EXPECT_TRUE(k.narrow(0, 0, 16).eq(3).all().item<bool>());
  EXPECT_TRUE(k.narrow(0, 16, 16).eq(0).all().item<bool>());
  EXPECT_TRUE(k.narrow(0, 32, 16).eq(-448 * 6).all().item<bool>());
}

// With the same global scale no block loses by the choice, some win, and no byte more is stored.
TEST(Nvfp4Rule, FourOverSixIsNeverWorseThanSix) {
  const ModelShape model{.n_heads = 4, .n_kv_heads = 2, .head_dim = 64};
  const auto input = ordinary_input(model, 200);
  const auto error = [&](bool four_over_six, int64_t& n_bytes) {
    const auto cache = Method("nvfp4", {{"scale", "one"}, {"four_over_six", four_over_six}}).cache(model, input, 150);
    n_bytes = cache->footprint().total_bytes();
    return (cache->dequantize().k - input.k).square().view({2, 200, 4, 16}).sum(-1);
  };
  int64_t of_six = 0, of_both = 0;
  const auto six = error(false, of_six), both = error(true, of_both);
  EXPECT_TRUE((both <= six * (1 + 1e-5)).all().item<bool>());
  EXPECT_GT((both < 0.9 * six).sum().item<int64_t>(), 100);
  EXPECT_EQ(of_six, of_both);
}

TEST(Nvfp4Bytes, OfThePaperAreFourAndAHalfBitsANumber) {
  EXPECT_EQ(Method("nvfp4").compressor().paper_bytes({.n_kv_heads = 2, .head_dim = 48}, 900, 100),
            0.28125 * 4 * 2 * 48 * 1000);
}

}  // namespace
}  // namespace kvc::conformance
