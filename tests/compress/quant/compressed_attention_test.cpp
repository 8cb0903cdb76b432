#include "kvc/quant/compressed_attention.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvc {
namespace {

TEST(CompressedAttention, RefusesCodesOfBitsThatItsLoopsDoNotKnow) {
  const LayerInfo info{.n_heads = 2, .n_kv_heads = 1, .head_dim = 32};
  auto codes = quantize_groups(at::ones({1, 3, 32}), {.bits = 8});
  CompressedAttention attention(at::ones({2, 1, 32}), 1, info, 3);
  codes.format.bits = 3;
  try {
    attention.score(codes, 0);
    FAIL() << "codes of 3 bits were read as others";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("3 bits, allowed: 2, 4, 8"));
  }
  attention.softmax();
  EXPECT_THROW(attention.accumulate_v(codes, 0), Error);
}

}  // namespace
}  // namespace kvc
