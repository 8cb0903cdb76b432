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
      }
    }
  }
}

TEST(CodeBook, OfHeadsSideBySideIsTheTableHeadByHead) {
  at::manual_seed(2);
  for (const int64_t bits : {1, 2, 3, 4}) {
    for (const int64_t head_dim : {1, 7, 8, 20, 32, 80, 128}) {
      for (const int64_t n_heads : {1, 3, 40}) {
        const int64_t len = n_heads * head_dim, n = 64;
        const auto codes = at::randint(0, 1 << bits, {n, len}, at::kByte), levels = at::randn({1 << bits});
        const auto looked_up = levels.index_select(0, codes.flatten().to(at::kLong)).view(codes.sizes());
        const auto heads = [&](const at::Tensor& x) { return x.view({n, n_heads, head_dim}).transpose(0, 1); };
        const CodeBook book{levels.const_data_ptr<float>(), bits};
        const auto decoded = [&](const at::Tensor& scale, const at::Tensor& zero, BookScale of) {
          return decode_heads(pack_bits(codes, bits), n_heads, head_dim, book, scale, zero, of);
        };
        const auto by_row = at::randn({n}), from_row = at::randn({n}), by = at::randn({len}), from = at::randn({len});
        EXPECT_TRUE(at::equal(decoded(by_row, from_row, BookScale::rows),
                              heads(looked_up * by_row.unsqueeze(1) + from_row.unsqueeze(1))))
            << bits << " bits, " << n_heads << " heads of " << head_dim;
        EXPECT_TRUE(at::equal(decoded(by, from, BookScale::channels), heads(looked_up * by + from)))
            << bits << " bits, " << n_heads << " heads of " << head_dim;
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
