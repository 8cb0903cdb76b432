// Symmetric groups, and attention in a basis other than the channels'.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "kvc/quant/compressed_attention.h"
#include "kvc/quant/token_blocks.h"

namespace kvc {
namespace {

at::Tensor keys(int64_t h, int64_t n, int64_t d) {
  at::manual_seed(static_cast<uint64_t>(h * n + d));
  return at::randn({h, n, d}) * at::randn({h, 1, d}).exp();
}

GroupFormat symmetric(int64_t bits, bool merge_tokens = false) {
  return {.bits = bits,
          .merge_heads = true,
          .precision = Precision::exact,
          .symmetric = true,
          .merge_tokens = merge_tokens};
}

TEST(SymmetricQuant, KnowsAWorkedExample) {
  // Largest 7: step 1 at 4 bits. 2.5 lies between codes 2 and 3 and goes to the even one. Codes are held plus 7.
  const auto x = at::tensor({7.f, -7.f, 2.5f, -0.4f}).view({1, 1, 4});
  const auto packed = quantize_groups(x, symmetric(4));
  EXPECT_EQ(packed.codes.item<int32_t>(), 14 | 0 << 4 | 9 << 8 | 7 << 12);
  EXPECT_FALSE(packed.zero.defined());
  EXPECT_TRUE(at::equal(packed.dequantize().flatten(), at::tensor({7.f, -7.f, 2.f, 0.f})));
}

TEST(SymmetricQuant, ZerosHaveNoStepAndNonsenseIsRefused) {
  const auto packed = quantize_groups(at::zeros({2, 3, 16}), symmetric(2));
  EXPECT_EQ(packed.scale.abs().max().item<float>(), 0);
  EXPECT_EQ(packed.dequantize().abs().max().item<float>(), 0);
  const auto x = keys(1, 2, 8);
  EXPECT_THROW(quantize_groups(x, symmetric(4), x > 0), Error);
  EXPECT_THROW(quantize_groups(x, {.merge_heads = true, .merge_tokens = true}), Error);
}

TEST(SymmetricQuant, OneGroupOverAChunkIsNotMerged) {
  CodeBlocks blocks;
  const auto x = keys(2, 5, 16);
  blocks.push_back(quantize_groups(x, symmetric(8, true)));
  blocks.push_back(quantize_groups(x, symmetric(8)));
  blocks.push_back(quantize_groups(x, symmetric(8)));
  ASSERT_EQ(blocks.blocks().size(), 2u);
  EXPECT_EQ(blocks.blocks()[0].scale.numel(), 1);
  EXPECT_EQ(blocks.blocks()[1].n_tokens, 10);
}

at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {  // float64; as many heads in q
  const auto weights = at::softmax(at::matmul(q.to(at::kDouble), k.to(at::kDouble).transpose(1, 2)), -1);
  return at::matmul(weights, v.to(at::kDouble));
}

TEST(CompressedAttention, ReadsSymmetricCodesAndDecodedTiles) {
  const LayerInfo info{.n_heads = 2, .n_kv_heads = 2, .head_dim = 48};
  const auto x = keys(2, 100, 48), q = keys(2, 1, 48);
  for (const int64_t bits : {2, 4, 8}) {
    for (const bool whole : {false, true}) {
      const auto packed = quantize_groups(x, symmetric(bits, whole));
      const auto expected = attention(q * 0.1, packed.dequantize(), packed.dequantize());
      CompressedAttention on_codes(q, 0.1, info, 100), on_tiles(q, 0.1, info, 100);
      on_codes.score(packed, 0), on_codes.softmax(), on_codes.accumulate_v(packed, 0);
      for (const int64_t first : {0, 60})
        on_tiles.score(packed.dequantize().narrow(1, first, first ? 40 : 60).contiguous(), first);
      on_tiles.softmax();
      for (const int64_t first : {0, 60})
        on_tiles.accumulate_v(packed.dequantize().narrow(1, first, first ? 40 : 60).contiguous(), first);
      const double size = expected.abs().max().item<double>();
      EXPECT_LE((on_codes.out() - expected).abs().max().item<double>(), 2e-5 * size) << bits << " bits";
      EXPECT_LE((on_tiles.out() - expected).abs().max().item<double>(), 2e-5 * size) << bits << " bits";
    }
  }
}

// x = c B: the query goes to B's basis, the sum comes back from it.
TEST(CompressedAttention, AttendsInTheCodesBasis) {
  const LayerInfo info{.n_heads = 4, .n_kv_heads = 2, .head_dim = 32};
  const auto packed = quantize_groups(keys(2, 70, 20), symmetric(8));
  const auto basis = keys(1, 20, 32)[0], q = keys(4, 1, 32);
  const auto x = at::matmul(packed.dequantize(), basis).repeat_interleave(2, 0);
  CompressedAttention compressed(q, 0.05, info, 70);
  compressed.score(at::matmul(compressed.q(), basis.t()), packed, 0);
  compressed.softmax();
  const auto sums = at::zeros({4, 20});
  compressed.accumulate_v(packed, 0, sums);
  compressed.then([&] { compressed.add_out(at::matmul(sums, basis)); });
  const auto expected = attention(q * 0.05, x, x);
  EXPECT_LE((compressed.out() - expected).abs().max().item<double>(), 2e-5 * expected.abs().max().item<double>());
}

}  // namespace
}  // namespace kvc
