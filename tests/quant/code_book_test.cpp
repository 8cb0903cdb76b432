#include "kvc/quant/code_book.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "kvc/quant/pack_bits.h"

namespace kvc {
namespace {

// What pack_bits and a table give, one code at a time; the same bits, since nothing is fused.
TEST(CodeBook, IsTheTableOneCodeAtATime) {
  at::manual_seed(1);
  for (const int64_t bits : {1, 2, 3, 4}) {
    for (const int64_t len : {1, 7, 8, 24, 63, 64, 80, 100}) {
      for (const int64_t group_size : {int64_t{8}, int64_t{10}, int64_t{16}, len}) {
        const int64_t n_groups = (len + group_size - 1) / group_size;
        const auto codes = at::randint(0, 1 << bits, {2, 5, len}, at::kByte), levels = at::randn({1 << bits});
        const auto words = pack_bits(codes, bits);
        const auto scale = at::randn({2, 5, n_groups}), zero = at::randn({2, 5, n_groups});
        const auto looked_up = levels.index_select(0, codes.flatten().to(at::kLong)).view(codes.sizes());
        const auto each = [&](const at::Tensor& x) { return x.repeat_interleave(group_size, 2).narrow(2, 0, len); };
        const CodeBook book{levels.const_data_ptr<float>(), bits};
        EXPECT_TRUE(
            at::equal(decode_groups(words, len, book, scale, zero, group_size), looked_up * each(scale) + each(zero)))
            << bits << " bits, " << len << " in groups of " << group_size;
        EXPECT_TRUE(at::equal(decode_groups(words, len, book, scale, {}, group_size), looked_up * each(scale)));
        const auto by = at::randn({len}), from = at::randn({len});
        EXPECT_TRUE(at::equal(decode_channels(words, len, book, by, from), looked_up * by + from))
            << bits << " " << len;
      }
    }
  }
}

TEST(CodeBook, RefusesOtherWidthsShapesAndTypes) {
  const float levels[32] = {};
  const auto words = at::zeros({1, 2}, at::kInt), scale = at::ones({1, 1});
  EXPECT_THROW(decode_groups(words, 8, {levels, 5}, scale, {}, 8), Error);
  EXPECT_THROW(decode_groups(words, 8, {levels, 4}, scale, {}, 8), Error);
  EXPECT_THROW(decode_groups(words, 16, {levels, 4}, at::ones({1, 2}), {}, 16), Error);
  EXPECT_THROW(decode_groups(words, 16, {levels, 4}, scale.to(at::kHalf), {}, 16), Error);
}

}  // namespace
}  // namespace kvc
