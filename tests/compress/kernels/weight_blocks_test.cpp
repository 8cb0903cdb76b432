// Blocks written by hand, and their values by the formulas of ggml's block types. Random ones: blocks_parity.py.
#include "kernels/weight_blocks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace kvc::kernels {
namespace {

using Bytes = std::vector<uint8_t>;

// Halves: 1.5, -2, 0.25
const Bytes kOneAndAHalf = {0x00, 0x3e}, kMinusTwo = {0x00, 0xc0}, kQuarter = {0x00, 0x34};

Bytes joined(std::initializer_list<Bytes> parts) {
  Bytes all;
  for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

std::vector<float> expand(BlockType type, const Bytes& blocks) {
  const auto& layout = layout_of(type);
  EXPECT_EQ(static_cast<int64_t>(blocks.size()) % layout.n_bytes, 0);
  std::vector<float> values(blocks.size() / static_cast<size_t>(layout.n_bytes) * static_cast<size_t>(layout.n_values));
  expand_blocks(type, blocks.data(), static_cast<int64_t>(values.size()), values.data());
  return values;
}

TEST(WeightBlocks, HaveTheSizesOfTheFormat) {
  const std::vector<std::tuple<BlockType, std::string, int64_t, int64_t>> expected = {
      {BlockType::q4_0, "Q4_0", 32, 18},   {BlockType::q4_1, "Q4_1", 32, 20},   {BlockType::q5_0, "Q5_0", 32, 22},
      {BlockType::q5_1, "Q5_1", 32, 24},   {BlockType::q8_0, "Q8_0", 32, 34},   {BlockType::q4_k, "Q4_K", 256, 144},
      {BlockType::q5_k, "Q5_K", 256, 176}, {BlockType::q6_k, "Q6_K", 256, 210}, {BlockType::mxfp4, "MXFP4", 32, 17},
  };
  for (const auto& [type, name, n_values, n_bytes] : expected) {
    EXPECT_EQ(layout_of(type).name, name);
    EXPECT_EQ(layout_of(type).n_values, n_values);
    EXPECT_EQ(layout_of(type).n_bytes, n_bytes);
  }
}

// Byte j = j | (15 - j) << 4: codes 0 ... 15, then 15 ... 0.
Bytes rising_and_falling() {
  Bytes bytes(16);
  for (size_t j = 0; j < 16; ++j) bytes[j] = static_cast<uint8_t>(j | (15 - j) << 4);
  return bytes;
}

TEST(WeightBlocks, FourBitsInThirtyTwos) {
  const auto q4_0 = expand(BlockType::q4_0, joined({kOneAndAHalf, rising_and_falling()}));
  const auto q4_1 = expand(BlockType::q4_1, joined({kMinusTwo, kQuarter, rising_and_falling()}));
  for (size_t j = 0; j < 32; ++j) {
    const float code = static_cast<float>(j < 16 ? j : 31 - j);
    EXPECT_EQ(q4_0[j], (code - 8) * 1.5f) << j;
    EXPECT_EQ(q4_1[j], code * -2 + 0.25f) << j;
  }
}

// Fifth bits of elements 1, 15, 16 and 31: bytes 2, 0x80, 1, 0x80
TEST(WeightBlocks, FiveBitsInThirtyTwos) {
  const Bytes fifth_bits = {0x02, 0x80, 0x01, 0x80};
  const auto q5_0 = expand(BlockType::q5_0, joined({kOneAndAHalf, fifth_bits, rising_and_falling()}));
  const auto q5_1 = expand(BlockType::q5_1, joined({kMinusTwo, kQuarter, fifth_bits, rising_and_falling()}));
  for (size_t j = 0; j < 32; ++j) {
    const bool has_fifth = j == 1 || j == 15 || j == 16 || j == 31;
    const float code = static_cast<float>((j < 16 ? j : 31 - j) + (has_fifth ? 16 : 0));
    EXPECT_EQ(q5_0[j], (code - 16) * 1.5f) << j;
    EXPECT_EQ(q5_1[j], code * -2 + 0.25f) << j;
  }
}

TEST(WeightBlocks, EightBits) {
  Bytes codes(32, 0);
  codes[0] = 0x80, codes[1] = 0x7f, codes[17] = 0xff, codes[31] = 3;
  const auto values = expand(BlockType::q8_0, joined({kMinusTwo, codes}));
  std::vector<float> expected(32, -0.f);
  expected[0] = 256, expected[1] = -254, expected[17] = 2, expected[31] = -6;
  EXPECT_EQ(values, expected);
  EXPECT_TRUE(std::signbit(values[2]));
}

// Groups' scales 1 2 3 4 and 17 34 51 63, minima 5 6 7 8 and 20 40 60 33. In 12 bytes:
// scale j + 4: low four bits in byte 8 + j's low half, high two in byte j's top; minimum j + 4: byte 8 + j's high half,
// byte 4 + j's top.
const std::vector<float> kScales = {1, 2, 3, 4, 17, 34, 51, 63}, kMinima = {5, 6, 7, 8, 20, 40, 60, 33};
const Bytes kPacked = {1 | 1 << 6, 2 | 2 << 6, 3 | 3 << 6, 4 | 3 << 6, 5 | 1 << 6,  6 | 2 << 6,
                       7 | 3 << 6, 8 | 2 << 6, 1 | 4 << 4, 2 | 8 << 4, 3 | 12 << 4, 15 | 1 << 4};

TEST(WeightBlocks, FourAndFiveBitsInGroupsOfABlock) {
  Bytes codes(128), fifth_bits(32);
  for (size_t i = 0; i < 128; ++i) codes[i] = static_cast<uint8_t>(i * 37 % 256);
  for (size_t i = 0; i < 32; ++i) fifth_bits[i] = static_cast<uint8_t>(i * 89 % 256);
  const auto q4_k = expand(BlockType::q4_k, joined({kOneAndAHalf, kQuarter, kPacked, codes}));
  const auto q5_k = expand(BlockType::q5_k, joined({kOneAndAHalf, kQuarter, kPacked, fifth_bits, codes}));
  for (size_t i = 0; i < 256; ++i) {
    const size_t group = i / 32, byte = codes[group / 2 * 32 + i % 32];
    const float code = static_cast<float>(group % 2 ? byte >> 4 : byte & 15);
    const float fifth = fifth_bits[i % 32] >> group & 1 ? 16 : 0;
    EXPECT_EQ(q4_k[i], 1.5f * kScales[group] * code - 0.25f * kMinima[group]) << i;
    EXPECT_EQ(q5_k[i], 1.5f * kScales[group] * (code + fifth) - 0.25f * kMinima[group]) << i;
  }
}

// The low halves of bytes 0 to 63 are values 0 to 63, their high halves 64 to 127; the second 64 bytes alike.
TEST(WeightBlocks, SixBitsInSixteens) {
  Bytes low(128), high(64), scales(16);
  for (size_t i = 0; i < 128; ++i) low[i] = static_cast<uint8_t>(i * 53 % 256);
  for (size_t i = 0; i < 64; ++i) high[i] = static_cast<uint8_t>(i * 101 % 256);
  for (size_t i = 0; i < 16; ++i) scales[i] = static_cast<uint8_t>(i * 16 + 3 - 128);
  const auto values = expand(BlockType::q6_k, joined({low, high, scales, kQuarter}));
  for (size_t i = 0; i < 256; ++i) {
    const size_t half = i / 128, place = i % 128;
    const int low_bits = low[half * 64 + place % 64] >> (place / 64 * 4) & 15;
    const int high_bits = high[half * 32 + place % 32] >> (place / 32 * 2) & 3;
    const auto scale = static_cast<int8_t>(scales[i / 16]);
    EXPECT_EQ(values[i], 0.25f * static_cast<float>(scale * ((low_bits | high_bits << 4) - 32))) << i;
  }
}

// The values of e2m1 by the OCP's list, times 2^(exponent - 127).
TEST(WeightBlocks, FourBitFloatsWithAnExponent) {
  const float e2m1[] = {0, .5f, 1, 1.5f, 2, 3, 4, 6, 0, -.5f, -1, -1.5f, -2, -3, -4, -6};
  for (const auto [exponent, scale] :
       {std::pair{127, 1.f}, {130, 8.f}, {2, 0x1p-125f}, {1, 0x1p-126f}, {0, 0x1p-127f}, {252, 0x1p125f}}) {
    const auto values = expand(BlockType::mxfp4, joined({{static_cast<uint8_t>(exponent)}, rising_and_falling()}));
    for (size_t j = 0; j < 32; ++j) EXPECT_EQ(values[j], e2m1[j < 16 ? j : 31 - j] * scale) << exponent << ", " << j;
  }
}

TEST(WeightBlocks, ScalesBelowAndBeyondTheNormalOnes) {
  Bytes codes(32, 0);
  codes[0] = 1, codes[1] = 0xff;
  const auto of = [&](uint8_t low, uint8_t high) { return expand(BlockType::q8_0, joined({{low, high}, codes})); };
  EXPECT_EQ(of(0x01, 0x00)[0], 0x1p-24f);
  EXPECT_EQ(of(0xff, 0x83)[1], 1023 * 0x1p-24f);
  EXPECT_EQ(of(0xff, 0x7b)[0], 65504.f);
  EXPECT_EQ(of(0x00, 0x7c)[0], std::numeric_limits<float>::infinity());
  EXPECT_EQ(of(0x00, 0x7c)[1], -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(of(0x00, 0x7c)[2]));  // infinity times zero
  EXPECT_TRUE(std::isnan(of(0x01, 0x7c)[0]));
}

TEST(WeightBlocks, StandOneBehindTheOtherAtAnyAlignment) {
  const auto block = joined({kOneAndAHalf, rising_and_falling()}), other = joined({kMinusTwo, rising_and_falling()});
  const auto bytes = joined({{0xee}, block, other, block});
  std::vector<float> values(97, 7.f);
  expand_blocks(BlockType::q4_0, bytes.data() + 1, 96, values.data());
  EXPECT_EQ(values[1], -10.5f);
  EXPECT_EQ(values[33], 14.f);
  EXPECT_EQ(values[95], -12.f);
  EXPECT_EQ(values[96], 7.f);
}

}  // namespace
}  // namespace kvc::kernels
