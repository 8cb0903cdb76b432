#include "kvc/quant/group_quant.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

namespace kvc {
namespace {

at::Tensor keys(int64_t n_tokens) {  // [2, T, 64]
  at::manual_seed(3);
  return at::randn({2, n_tokens, 64}) * 3 + at::randn({2, 1, 64});
}

std::vector<GroupFormat> formats() {
  std::vector<GroupFormat> all;
  for (const int64_t bits : {2, 3, 4, 5, 6, 8}) {
    for (const auto precision : {Precision::real, Precision::exact}) {
      all.push_back({bits, 32, GroupAxis::channels, false, precision});
      all.push_back({bits, 0, GroupAxis::channels, true, precision});
      all.push_back({bits, 32, GroupAxis::tokens, false, precision});
      all.push_back({bits, 0, GroupAxis::tokens, false, precision});
      all.push_back({bits, 32, GroupAxis::channels, false, precision, true});
      all.push_back({bits, 0, GroupAxis::channels, true, precision, true});
      all.push_back({bits, 16, GroupAxis::tokens, false, precision, true});
    }
  }
  return all;
}

TEST(GroupQuant, KnowsAWorkedExample) {
  // min 1, max 4, step 1: 2.5 lies between codes 1 and 2 and goes to the even one.
  const auto x = at::tensor({1.f, 2.5f, 3.5f, 4.f}).view({1, 1, 4});
  const auto packed = quantize_groups(x, {.bits = 2, .group_size = 4});
  EXPECT_EQ(packed.codes.item<int32_t>(), 0 | 2 << 2 | 2 << 4 | 3 << 6);
  EXPECT_TRUE(at::equal(packed.dequantize().flatten(), at::tensor({1.f, 3.f, 3.f, 4.f})));
}

TEST(GroupQuant, LoopsEqualPlainTensorOperationsBitForBit) {
  for (const int64_t n_tokens : {96, 2080}) {  // the second of several pieces and tiles
    const auto x = keys(n_tokens);
    const auto mask = at::rand_like(x) < 0.1;
    for (const auto& format : formats()) {
      for (const auto& left_out : {at::Tensor(), mask}) {
        if (left_out.defined() && format.symmetric) continue;
        const auto fast = quantize_groups(x, format, left_out), plain = quantize_groups_reference(x, format, left_out);
        EXPECT_TRUE(at::equal(fast.codes, plain.codes) && at::equal(fast.scale, plain.scale) &&
                    (format.symmetric || at::equal(fast.zero, plain.zero)))
            << format.bits << " bits, axis " << static_cast<int>(format.axis) << ", " << n_tokens << " tokens";
        EXPECT_TRUE(at::equal(fast.dequantize(), plain.dequantize()));
      }
    }
  }
}

TEST(GroupQuant, TakesFloatsOfSixteenBitsAndTokensThatLieApart) {
  const auto wide = at::cat({keys(300), keys(300)}, 2);
  for (const auto& format : formats()) {
    if (format.group_size > 0 && format.axis == GroupAxis::tokens) continue;  // 300 tokens have no such groups
    for (const auto type : {at::kHalf, at::kBFloat16, at::kFloat, at::kDouble}) {
      const auto x = wide.to(type).narrow(2, 64, 64);
      const auto expected = quantize_groups_reference(x.to(at::kFloat).contiguous(), format);
      EXPECT_TRUE(at::equal(quantize_groups(x, format).codes, expected.codes)) << x.scalar_type();
    }
  }
}

// Its first 16 words are those of the first channel's first 128 tokens, then the second channel's.
TEST(GroupQuant, GroupsAlongTokensStandInTiles) {
  auto x = at::arange(16, at::kFloat).repeat({20}).view({1, 320, 1}).repeat({1, 1, 2});
  x.select(2, 1).mul_(-1);
  const auto packed = quantize_groups(x, {.bits = 4, .group_size = 16, .axis = GroupAxis::tokens});
  const auto words = packed.codes.flatten(), scales = packed.scale.to(at::kFloat).flatten();
  const int32_t up[2] = {0x76543210, static_cast<int32_t>(0xfedcba98)};
  const int32_t down[2] = {static_cast<int32_t>(0x89abcdef), 0x01234567};
  for (const int64_t first : {0, 32}) {
    for (int64_t i = 0; i < 16; ++i) {
      EXPECT_EQ(words[first + i].item<int32_t>(), up[i % 2]);
      EXPECT_EQ(words[first + 16 + i].item<int32_t>(), down[i % 2]);
    }
  }
  for (int64_t i = 0; i < 8; ++i) EXPECT_EQ(words[64 + 8 + i].item<int32_t>(), down[i % 2]);  // the last tile's 8
  EXPECT_TRUE(at::equal(packed.by_rows().scale.to(at::kFloat), at::ones({1, 2, 20})));
  EXPECT_EQ(scales.numel(), 40);
}

TEST(GroupQuant, ErrorStaysWithinHalfAStep) {
  const auto x = keys(64);
  for (const auto& format : formats()) {
    const auto packed = quantize_groups(x, format);
    const double error = (packed.dequantize() - x).abs().max().item<double>();
    const double step = packed.scale.to(at::kDouble).max().item<double>();
    // fp16 scale and zero add 2^-11 of their size each, the scale up to 2^b - 1 times.
    const double rounding = format.precision == Precision::real
                                ? 0x1p-11 * (x.abs().max().item<double>() + step * (1 << format.bits))
                                : 1e-5;
    EXPECT_LE(error, step / 2 + rounding);
  }
}

TEST(GroupQuant, ConstantGroupComesBackExactly) {
  const auto packed =
      quantize_groups(at::full({1, 32, 32}, -0.75), {.bits = 2, .group_size = 32, .axis = GroupAxis::tokens});
  EXPECT_EQ(packed.scale.abs().max().item<double>(), 0);
  EXPECT_TRUE(at::equal(packed.dequantize(), at::full({1, 32, 32}, -0.75)));
}

TEST(GroupQuant, LeftOutEntriesDoNotWidenTheRange) {
  auto x = at::rand({1, 1, 32});
  const double step = quantize_groups(x, {.bits = 4}).scale.item<double>();
  x[0][0][7] = 100;
  auto mask = at::zeros({1, 1, 32}, at::kBool);
  mask[0][0][7] = true;
  EXPECT_LE(quantize_groups(x, {.bits = 4}, mask).scale.item<double>(), step);
  EXPECT_GT(quantize_groups(x, {.bits = 4}).scale.item<double>(), 6);
}

TEST(GroupQuant, EqualsItselfWhenQuantizedAgain) {
  const auto once =
      quantize_groups(keys(32), {.bits = 4, .group_size = 64, .precision = Precision::exact}).dequantize();
  const auto twice = quantize_groups(once, {.bits = 4, .group_size = 64, .precision = Precision::exact}).dequantize();
  EXPECT_LT((once - twice).abs().max().item<double>(), 1e-5);
}

TEST(GroupQuant, RefusesWhatItCannotStore) {
  const auto x = keys(33);
  EXPECT_THROW(quantize_groups(x, {.bits = 4, .group_size = 32, .axis = GroupAxis::tokens}), Error);  // 33 % 32
  EXPECT_THROW(quantize_groups(x, {.bits = 4, .group_size = 48}), Error);                             // 64 % 48
  EXPECT_THROW(quantize_groups(x, {.bits = 7, .group_size = 32}), Error);
  EXPECT_THROW(quantize_groups(x * 1e6, {.bits = 4, .group_size = 32}), Error);  // beyond fp16
  EXPECT_NO_THROW(quantize_groups(x * 1e6, {.bits = 4, .group_size = 32, .precision = Precision::exact}));
  for (const auto type : {at::kFloat, at::kHalf, at::kBFloat16}) {
    for (const double value : {HUGE_VAL, std::nan("")}) {
      const auto infinite = x.to(type, false, true);
      infinite.view(-1)[70].fill_(value);
      EXPECT_THROW(quantize_groups(infinite, {.bits = 4, .group_size = 32}), Error) << type << ", " << value;
      EXPECT_THROW(quantize_groups(infinite, {.bits = 4, .group_size = 32, .symmetric = true}), Error);
    }
  }
}

}  // namespace
}  // namespace kvc
