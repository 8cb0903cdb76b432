// Matrices as codes, by hand and against the formula; their products against those of the same floats.
#include "model/quantized_linear.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "kvc/check.h"
#include "model/portable_ops.h"
#include "support/message_of.h"

namespace kvc {
namespace {

double distance(const at::Tensor& a, const at::Tensor& b) { return a.sub(b).abs().max().item<double>(); }

// 4.06 is 127 of its row's scale, 0.1 is 3.13 of it; a row of zeros stays one, with the least scale.
TEST(QuantizedLinear, EightBitsAreRoundedByRow) {
  const Linear w{at::tensor({4.06f, -0.1f, 0.f, 0.f, 1.f, -2.f}).view({3, 2}), {}, {}};
  const auto codes = quantized(w, 8, 0);
  EXPECT_EQ(codes.weight.scalar_type(), at::kChar);
  EXPECT_TRUE(at::equal(codes.weight.to(at::kInt), at::tensor({127, -3, 0, 0, 64, -127}, at::kInt).view({3, 2})));
  EXPECT_LT(distance(codes.scale, at::tensor({4.06 / 127, 1e-5 / 127, 2.0 / 127}, at::kDouble)), 1e-9);
  EXPECT_LT(distance(expanded(codes, at::kFloat).weight, w.weight), 4.06 / 127 / 2 + 1e-6);
}

// Scales 7 / 7 = 1 and 0.7 / 7; 2.5 and 0.05 / 0.1 = 0.5 go to the even neighbour. Codes from 1 to 15, zero at 8, the
// even column in the low half: 15 | 10 << 4, 8 | 1 << 4.
TEST(QuantizedLinear, FourBitsAreTwoInAByteWithAScaleAGroup) {
  const Linear w{at::tensor({7.f, 2.5f, 0.03f, -0.7f}).view({1, 4}), {}, {}};
  const auto codes = quantized(w, 4, 2);
  EXPECT_EQ(codes.weight.scalar_type(), at::kByte);
  EXPECT_TRUE(at::equal(codes.weight.to(at::kInt), at::tensor({15 | 10 << 4, 8 | 1 << 4}, at::kInt).view({1, 2})));
  EXPECT_LT(distance(codes.scale, at::tensor({1.0, 0.1}, at::kDouble).view({1, 2})), 1e-8);
  EXPECT_LT(distance(expanded(codes, at::kFloat).weight, at::tensor({7.f, 2.f, 0.f, -0.7f}).view({1, 4})), 1e-7);
}

TEST(QuantizedLinear, TwoBitsHaveThreeLevels) {
  const Linear w{at::tensor({-2.f, 0.9f, 1.1f, 0.f}).view({1, 4}), {}, {}};
  EXPECT_TRUE(
      at::equal(expanded(quantized(w, 2, 0), at::kFloat).weight, at::tensor({-2.f, 0.f, 2.f, 0.f}).view({1, 4})));
}

// An odd number of columns takes half a byte more. Bytes: codes, and 4 a scale.
TEST(QuantizedLinear, HoldsWhatItSays) {
  const Linear w{at::randn({3, 5}), {}, {}};
  EXPECT_EQ(quantized(w, 4, 0).weight.nbytes(), 3u * 3);
  EXPECT_EQ(quantized(w, 3, 0).weight.nbytes(), 3u * 3);
  EXPECT_EQ(quantized(w, 8, 0).weight.nbytes(), 3u * 5);
  EXPECT_EQ(quantized(w, 4, 1).scale.nbytes(), 4u * 15);
  EXPECT_EQ(held_bits(8), 8);
  EXPECT_EQ(held_bits(2), 4);
}

class QuantizedLinearOf : public testing::TestWithParam<std::tuple<int64_t, int64_t>> {};  // bits, group_size

// x^ = scale * round(x / scale), scale = max(max |x|, 1e-5) / (2^(bits-1) - 1), in double
TEST_P(QuantizedLinearOf, IsTheFormulaAndItsProductsAreThoseOfItsFloats) {
  const auto [bits, group_size] = GetParam();
  at::manual_seed(bits);
  const Linear w{at::randn({37, 130}), at::randn({37}), {}};
  const auto codes = quantized(w, bits, group_size);
  const auto floats = expanded(codes, at::kFloat);
  const int64_t group = group_size ? group_size : 130;
  const float* x = w.weight.const_data_ptr<float>();
  const float* y = floats.weight.const_data_ptr<float>();
  for (int64_t first = 0; first < 37 * 130; first += group) {
    double top = 1e-5;
    for (int64_t i = first; i < first + group; ++i) top = std::max(top, std::abs(static_cast<double>(x[i])));
    const double scale = top / (std::pow(2, bits - 1) - 1);
    for (int64_t i = first; i < first + group; ++i) {
      EXPECT_LE(std::abs(y[i] - x[i]), scale / 2 * (1 + 1e-5));
      EXPECT_NEAR(y[i] / scale, std::nearbyint(x[i] / scale), 1e-4) << x[i] / scale;
    }
  }
  const auto rows = at::randn({5, 130});
  const auto product = linear_rows(rows, codes);
  EXPECT_LT(distance(product, linear_rows(rows, floats)), 1e-4);
  EXPECT_LT(distance(product, portable::linear_rows(rows, codes)), 1e-4);
  for (int64_t row = 0; row < 5; ++row) {
    EXPECT_TRUE(at::equal(linear_rows(rows.narrow(0, row, 1), codes)[0], product[row])) << row;
  }
}
INSTANTIATE_TEST_SUITE_P(Bits, QuantizedLinearOf,
                         testing::Combine(testing::Values(8, 4, 3, 2), testing::Values(0, 26, 65)));

TEST(QuantizedLinear, RefusesWhatItCannotHold) {
  const Linear w{at::randn({2, 6}), {}, {}};
  EXPECT_THAT(kvc::test::message_of([&] { quantized(w, 4, 4); }),
              testing::HasSubstr("group_size 4 does not divide the 6"));
  EXPECT_THAT(kvc::test::message_of([&] { quantized(w, 5, 0); }), testing::HasSubstr("bits 5, allowed: 8, 4, 3, 2"));
}

// A step is 2 / 127 in the first row, a hundredth of it in the second: codes 127, -65 and 2 in both.
TEST(RoundedRows, HaveAScaleATokenEach) {
  const auto x = at::tensor({2.f, -1.02f, 0.03f, 0.02f, -0.0102f, 0.0003f, 0.f, 0.f, 0.f}).view({3, 3});
  const auto expected =
      at::tensor({2., -65 * 2 / 127., 2 * 2 / 127., 0.02, -65 * 0.02 / 127, 2 * 0.02 / 127, 0., 0., 0.}, at::kDouble)
          .view({3, 3});
  EXPECT_LT(distance(rounded_rows(x, 8), expected), 1e-7);
  EXPECT_TRUE(at::equal(rounded_rows(x, 8)[1], rounded_rows(x.narrow(0, 1, 1), 8)[0]));
  EXPECT_EQ(rounded_rows(x.to(at::kBFloat16), 4).scalar_type(), at::kBFloat16);
}

}  // namespace
}  // namespace kvc
