#include "kvc/quant/small_floats.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

namespace kvc {
namespace {

TEST(E4m3, DecodesAsAtenDoes) {
  const auto codes = at::arange(256, at::kByte);
  const auto expected = codes.view(at::kFloat8_e4m3fn).to(at::kFloat), got = from_e4m3(codes);
  for (int64_t i = 0; i < 256; ++i) {
    if (i % 128 == 127) {
      EXPECT_TRUE(std::isnan(got[i].item<float>()));
      continue;
    }
    EXPECT_EQ(got[i].item<float>(), expected[i].item<float>()) << i;
    EXPECT_EQ(std::signbit(got[i].item<float>()), i >= 128) << i;
  }
}

// The format's published limits.
TEST(E4m3, HasThePublishedLimits) {
  EXPECT_EQ(e4m3_value(0x7e), 448.f);
  EXPECT_EQ(e4m3_value(0x08), 0x1p-6f);
  EXPECT_EQ(e4m3_value(0x07), 0x1.cp-7f);
  EXPECT_EQ(e4m3_value(0x01), 0x1p-9f);
  EXPECT_EQ(e4m3_value(0x38), 1.f);
}

TEST(E4m3, EncodesAsAtenDoes) {
  at::manual_seed(1);
  const auto values = from_e4m3(at::arange(127, at::kByte));  // ascending
  const auto middles = (values.narrow(0, 0, 126) + values.narrow(0, 1, 126)) / 2;
  const auto above = at::nextafter(middles, at::full({1}, 1e9f)), below = at::nextafter(middles, at::zeros({1}));
  const auto random = at::randn({20000}) * at::randn({20000}).mul(3).exp();
  auto x = at::cat({values, middles, above, below, random.clamp(-448, 448)});
  x = at::cat({x, -x});
  EXPECT_TRUE(at::equal(to_e4m3(x), x.to(at::kFloat8_e4m3fn).view(at::kByte)));
}

TEST(E4m3, EncodesHeadsOfAnyFloatTypeByTheirScale) {
  at::manual_seed(2);
  for (const auto type : {at::kFloat, at::kHalf, at::kBFloat16}) {
    auto x = at::randn({3, 4, 131, 24}).to(type).transpose(0, 1).select(0, 1);  // strided; rows of no whole vectors
    x[2].zero_();
    x[1][70][3] = 9;
    const auto floats = x.to(at::kFloat), largest = largest_of_heads(x);
    EXPECT_TRUE(at::equal(largest, floats.abs().amax({1, 2}, true)));
    const auto scale = at::where(largest == 0, at::ones_like(largest), largest / 448);
    EXPECT_TRUE(at::equal(to_float8(Float8::e4m3, x, scale), to_e4m3(floats / scale)));
    x[0][130][23] = NAN;
    EXPECT_TRUE(largest_of_heads(x).view({3})[0].isnan().item<bool>());
  }
}

TEST(E4m3, Saturates) {
  EXPECT_EQ(e4m3_code(449.f), 0x7e);
  EXPECT_EQ(e4m3_code(1e30f), 0x7e);
  EXPECT_EQ(e4m3_code(-INFINITY), 0xfe);
}

TEST(E5m2, IsAtensOfEveryHalfAndSaturates) {
  const auto codes = at::arange(256, at::kByte);
  const auto decoded = from_float8(Float8::e5m2, codes), expected = codes.view(at::kFloat8_e5m2).to(at::kFloat);
  EXPECT_TRUE(at::allclose(decoded, expected, 0, 0, /*equal_nan=*/true));
  EXPECT_TRUE(at::equal(decoded.signbit(), codes >= 128));
  auto halves = at::arange(-32768, 32768, at::kInt).to(at::kShort).view(at::kHalf).to(at::kFloat);
  halves = halves.masked_select(halves.isfinite());
  const auto between = at::cat({halves, halves * 1.0001, halves * 0x1p-4f}).view({1, -1, 1}).expand({1, -1, 8});
  const auto ones = at::ones({1, 1, 1});
  const auto encoded = between.clamp(-57344, 57344).to(at::kFloat8_e5m2).view(at::kByte);
  EXPECT_TRUE(at::equal(to_float8(Float8::e5m2, between, ones), encoded));
  EXPECT_EQ(to_float8(Float8::e5m2, at::full({1, 1, 8}, -1e30), ones)[0][0][7].item<uint8_t>(), 0xfb);
}

// OCP Microscaling 1.0, table of FP4 values.
TEST(E2m1, HasThePublishedValues) {
  const float values[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  for (uint8_t code = 0; code < 8; ++code) {
    EXPECT_EQ(e2m1_value(code), values[code]);
    EXPECT_EQ(e2m1_value(code | 8), -values[code]);
    EXPECT_EQ(e2m1_code(values[code]), code);
    EXPECT_EQ(e2m1_code(-values[code]), code | 8);
  }
}

TEST(E2m1, GoesToTheNearestAndFromTheMiddleToTheEvenCode) {
  for (uint8_t code = 0; code < 7; ++code) {
    const float middle = (e2m1_value(code) + e2m1_value(code + 1)) / 2;
    EXPECT_EQ(e2m1_code(middle), code % 2 == 0 ? code : code + 1);
    EXPECT_EQ(e2m1_code(std::nextafter(middle, 0.f)), code);
    EXPECT_EQ(e2m1_code(std::nextafter(middle, 9.f)), code + 1);
    EXPECT_EQ(e2m1_code(-middle), (code % 2 == 0 ? code : code + 1) | 8);
  }
  EXPECT_EQ(e2m1_code(1e9f), 7);
  EXPECT_EQ(e2m1_code(-1e9f), 15);
}

}  // namespace
}  // namespace kvc
