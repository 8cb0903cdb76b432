#include "kvc/quant/token_blocks.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace kvc {
namespace {

at::Tensor tokens(int64_t n) {
  at::manual_seed(4);
  return at::randn({2, n, 8}).to(at::kHalf).to(at::kFloat);
}

TEST(TokenBlocks, KeepTokensInOrderThroughPushAndPop) {
  const auto x = tokens(200);
  TokenBlocks blocks(at::kHalf, 16);
  blocks.push_back(x.narrow(1, 0, 37));
  for (int64_t t = 37; t < 150; ++t) blocks.push_back(x.narrow(1, t, 1));
  EXPECT_TRUE(at::equal(blocks.pop_front(5), x.narrow(1, 0, 5)));
  EXPECT_TRUE(at::equal(blocks.pop_front(16), x.narrow(1, 5, 16)));
  blocks.push_back(x.narrow(1, 150, 50));
  EXPECT_EQ(blocks.n_tokens(), 179);
  EXPECT_TRUE(at::equal(blocks.all(), x.narrow(1, 21, 179)));
  EXPECT_TRUE(at::equal(blocks.pop_front(179), x.narrow(1, 21, 179)));
  EXPECT_EQ(blocks.n_tokens(), 0);
}

TEST(TokenBlocks, HoldExactlyTheirSize) {
  TokenBlocks blocks(at::kHalf, 16);
  for (int64_t n = 1; n < 60; ++n) {
    blocks.push_back(tokens(1));
    if (n > 40) blocks.pop_front(1);
    Footprint bytes;
    blocks.add_to(bytes, CacheTensor::k);
    EXPECT_EQ(bytes.total_bytes(), blocks.n_tokens() * 2 * 8 * 2);
  }
}

TEST(TokenBlocks, RoundToHalfAsTensorsDo) {
  const auto x =
      at::cat({at::randn({1, 100, 8}), at::randn({1, 100, 8}) * 1e-6, at::randn({1, 10, 8}) * 1e-8,
               at::full({1, 1, 8}, 65519.f),
               at::tensor({2049.f, 2051.f, -0.f, 0x1p-24f, 0x1p-25f, 0x1.8p-24f, 0x1p-14f, 6.1e-5f}).view({1, 1, 8})},
              1);
  TokenBlocks blocks(at::kHalf);
  blocks.push_back(x);
  EXPECT_TRUE(at::equal(blocks.all(), x.to(at::kHalf).to(at::kFloat)));
}

TEST(TokenBlocks, RefuseWhatHalfCannotHold) {
  TokenBlocks blocks(at::kHalf);
  EXPECT_THROW(blocks.push_back(at::full({1, 1, 8}, 65520.f)), Error);
  EXPECT_THROW(blocks.push_back(at::full({1, 1, 8}, NAN)), Error);
}

TEST(CodeBlocks, MergeTokensButNeverChunks) {
  const auto x = tokens(100);
  CodeBlocks by_token, by_chunk;
  for (int64_t t = 0; t < 100; ++t)
    by_token.push_back(quantize_groups(x.narrow(1, t, 1), {.bits = 4, .group_size = 8}));
  for (int64_t t = 0; t < 100; t += 20)
    by_chunk.push_back(quantize_groups(x.narrow(1, t, 20), {.bits = 4, .axis = GroupAxis::tokens}));
  EXPECT_EQ(by_token.blocks().size(), 2u);  // 64 and 36
  EXPECT_EQ(by_chunk.blocks().size(), 5u);
  const auto at_once = quantize_groups(x, {.bits = 4, .group_size = 8});
  EXPECT_TRUE(at::equal(at::cat({by_token.blocks()[0].codes, by_token.blocks()[1].codes}, 1), at_once.codes));
}

}  // namespace
}  // namespace kvc
