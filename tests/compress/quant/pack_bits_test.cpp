#include "kvc/quant/pack_bits.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace kvc {
namespace {

TEST(PackBits, PutsTheFirstCodeInTheLowestBits) {
  const auto codes = at::tensor({1, 2, 3, 0, 1}, at::kByte);
  EXPECT_EQ(pack_bits(codes, 2).item<int32_t>(), 1 | 2 << 2 | 3 << 4 | 0 << 6 | 1 << 8);
  EXPECT_EQ(pack_bits(codes, 4).item<int32_t>(), 1 | 2 << 4 | 3 << 8 | 0 << 12 | 1 << 16);
}

TEST(PackBits, ComesBackForEveryWidthAndOddLength) {
  for (const int64_t bits : {1, 2, 3, 4, 5, 7, 8}) {
    for (const int64_t len : {1, 7, 8, 16, 31, 32, 33, 97}) {
      const auto codes = at::randint(0, 1 << bits, {3, 2, len}, at::kByte);
      const auto words = pack_bits(codes, bits);
      EXPECT_EQ(words.size(-1), (len * bits + 31) / 32);
      EXPECT_TRUE(at::equal(unpack_bits(words, bits, len), codes)) << bits << " bits, length " << len;
    }
  }
}

TEST(PackBits, RefusesOtherTypesAndWidths) {
  EXPECT_THROW(pack_bits(at::zeros({8}, at::kInt), 2), Error);
  EXPECT_THROW(pack_bits(at::zeros({8}, at::kByte), 9), Error);
  EXPECT_THROW(unpack_bits(at::zeros({2}, at::kInt), 2, 8), Error);
}

}  // namespace
}  // namespace kvc
