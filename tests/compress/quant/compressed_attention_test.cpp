#include "kvc/quant/compressed_attention.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/message_of.h"

namespace kvc {
namespace {

// The same as exact attention over what they decode to.
TEST(CompressedAttention, ReadsCodesThatWordsBreak) {
  at::manual_seed(4);
  const LayerInfo info{.n_heads = 4, .n_kv_heads = 2, .head_dim = 32};
  const auto q = at::randn({4, 1, 32}), x = at::randn({2, 64, 32}), y = at::randn({2, 64, 32});
  for (const int64_t bits : {3, 5, 6}) {
    for (const auto axis : {GroupAxis::channels, GroupAxis::tokens}) {
      const auto k = quantize_groups(x, {.bits = bits, .group_size = 32, .axis = axis});
      const auto v = quantize_groups(y, {.bits = bits, .group_size = 16});
      CompressedAttention attention(q, 0.2, info, 64);
      attention.score(k, 0);
      attention.softmax();
      attention.accumulate_v(v, 0);
      const auto scores = at::bmm(q.view({2, 2, 32}), k.dequantize().transpose(1, 2)) * 0.2;
      const auto expected = at::bmm(at::softmax(scores, -1), v.dequantize()).view({4, 1, 32});
      EXPECT_LT((attention.out() - expected).abs().max().item<float>(), 1e-5f) << bits;
    }
  }
}

TEST(CompressedAttention, BitsThatNoFormatHasAreRefused) {
  EXPECT_THAT(test::message_of([] {
                quantize_groups(at::ones({1, 3, 32}), {.bits = 7});
              }),
              testing::HasSubstr("bits 7, allowed: 2, 3, 4, 5, 6, 8"));
}

}  // namespace
}  // namespace kvc
