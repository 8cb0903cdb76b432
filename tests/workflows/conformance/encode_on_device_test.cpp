// What is encoded on a device has the bits that the CPU's loops give, and the host reads nothing to get there.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "kvc/quant/code_book.h"
#include "kvc/quant/group_quant.h"
#include "kvc/quant/kept_tokens.h"
#include "kvc/quant/level_codes.h"
#include "kvc/quant/outliers.h"
#include "kvc/quant/pack_bits.h"
#include "kvc/quant/small_floats.h"
#include "kvc/value_checks.h"
#include "sandbox/memory_meter.h"
#include "support/test_device.h"

namespace kvc {
namespace {

int64_t n_reads() { return n_reads_of_emulated_device(); }  // a GPU does not count
at::Tensor there(const at::Tensor& x) { return x.to(test::device()); }

// f(tensors of the device) is what f gives on the CPU, and reads nothing.
template <class F, class... Tensors>
void expect_same(F f, const Tensors&... x) {
  const auto expected = f(x...);
  const int64_t before = n_reads();
  const auto got = f(there(x)...);
  EXPECT_EQ(n_reads(), before);
  ASSERT_TRUE(got.device() == test::device());
  EXPECT_EQ(got.scalar_type(), expected.scalar_type());
  EXPECT_TRUE(at::equal(got.cpu().view(at::kByte), expected.contiguous().view(at::kByte)));  // bits: -0 is not 0
}

// Every value that codes stand for, the middles between them, their neighbours, zeros of both signs, subnormal numbers,
// what saturates, and random ones.
at::Tensor hard_numbers(const at::Tensor& values) {
  const int64_t n = values.numel() - 1;
  const auto middles = (values.narrow(0, 0, n) + values.narrow(0, 1, n)) / 2;
  const auto some = at::cat({values, middles, at::tensor({0.f, 1e-45f, 1e-40f, 1e-30f, 1e9f, 3e38f, INFINITY})});
  const auto above = at::nextafter(some, at::full({1}, INFINITY)), below = at::nextafter(some, at::zeros({1}));
  const auto x = at::cat({some, above, below, at::randn({4000}) * at::randn({4000}).mul(3).exp()});
  return at::cat({x, -x});
}

TEST(EncodesOnADevice, SmallFloatsToTheBitsOfTheCpu) {
  at::manual_seed(1);
  const auto codes = at::arange(256, at::kByte), numbers = at::arange(127, at::kByte);
  const auto e4m3 = hard_numbers(from_e4m3(numbers)), e2m1 = hard_numbers(from_e2m1(numbers.narrow(0, 0, 8)));
  const auto encoded = [](const at::Tensor& x) { return to_e4m3(x); };
  expect_same(encoded, e4m3);
  expect_same(to_e2m1, e2m1);
  expect_same(from_e4m3, at::cat({numbers, numbers + 128}));
  expect_same([](const at::Tensor& x) { return from_float8(Float8::e5m2, x); }, codes.narrow(0, 0, 125));
  expect_same(from_e2m1, codes);
  expect_same(from_e8m0, codes.narrow(0, 0, 255));
  for (const auto type : {at::kFloat, at::kHalf, at::kBFloat16}) {
    for (const int64_t n : {1, 70}) {
      auto x = at::randn({3, n, 24}).to(type);
      x[1].zero_();
      expect_same(largest_of_heads, x);
      const auto scale = largest_of_heads(x).div(448).clamp_min(1e-30);
      for (const auto format : {Float8::e4m3, Float8::e5m2}) {
        const auto by = scale * (448 / largest_of(format) / 2);  // saturates
        expect_same([=](const at::Tensor& y, const at::Tensor& z) { return to_float8(format, y, z); }, x, by);
      }
    }
  }
}

TEST(EncodesOnADevice, CodesOfABookStandForTheSame) {
  at::manual_seed(2);
  for (const int64_t bits : {1, 2, 3, 4}) {
    for (const int64_t len : {7, 24, 80}) {
      const auto levels = at::randn({1 << bits});
      const CodeBook book{levels.const_data_ptr<float>(), bits};
      const auto words = pack_bits(at::randint(0, 1 << bits, {2, 5, len}, at::kByte), bits);
      const auto scale = at::randn({2, 5, (len + 7) / 8}), zero = at::randn({2, 5, (len + 7) / 8});
      expect_same([&](const auto& w, const auto& s, const auto& z) { return decode_groups(w, len, book, s, z, 8); },
                  words, scale, zero);
      expect_same([&](const auto& w, const auto& s) { return decode_groups(w, len, book, s, {}, 8); }, words, scale);
      const auto rows = pack_bits(at::randint(0, 1 << bits, {5, 3 * len}, at::kByte), bits);
      for (const auto of : {BookScale::rows, BookScale::channels}) {
        const int64_t n = of == BookScale::rows ? 5 : 3 * len;
        expect_same(
            [&](const auto& w, const auto& s, const auto& z) { return decode_heads(w, 3, len, book, s, z, of); }, rows,
            at::randn({n}), at::randn({n}));
      }
    }
  }
}

TEST(EncodesOnADevice, CodesArePackedAndUnpackedToTheSame) {
  at::manual_seed(4);
  for (int64_t bits = 1; bits <= 8; ++bits) {
    for (const int64_t len : {1, 7, 24, 32, 80, 129}) {
      for (const int64_t rows : {0, 1, 5}) {
        const auto codes = at::randint(0, 1 << bits, {2, rows, len}, at::kByte);
        expect_same([=](const auto& x) { return pack_bits(x, bits); }, codes);
        expect_same([=](const auto& x) { return unpack_bits(x, bits, len); }, pack_bits(codes, bits));
        if (rows == 1) expect_same([=](const auto& x) { return pack_bits(x, bits); }, codes[0][0]);
      }
    }
  }
}

// In bytes of what is allocated at once, the codes left out: K and V are at least two bytes a number.
TEST(EncodesOnADevice, PackingTakesAtMostTwiceWhatWasGiven) {
  MemoryMeter meter;
  constexpr int64_t kNumbers = 1 << 18;
  for (int64_t bits = 1; bits <= 8; ++bits) {
    const auto codes = at::randint(0, 1 << bits, {2, kNumbers / 128, 64}, at::kByte).to(test::device());
    const int account = meter.take_account();
    {
      const MemoryMeter::Scope scope(meter, account);
      const auto words = pack_bits(codes, bits);
      unpack_bits(words, bits, 64);
    }
    EXPECT_LE(meter.peak_bytes(account), 2 * 2 * kNumbers) << bits;
  }
}

// Few values, so that nearly every choice is one among ties; constant vectors; zeros of both signs; long vectors.
TEST(EncodesOnADevice, OutliersAreTheSameWhateverTies) {
  at::manual_seed(3);
  for (int run = 0; run < 120; ++run) {
    const int64_t n = run < 100 ? 4 + run % 40 : 300 + 997 * (run % 5);
    auto x = run % 4 == 0 ? at::randn({2, n, 6}) : at::randint(1 + run % 5, {2, n, 6}).to(at::kFloat) - 1;
    if (run % 3 == 0) x = at::where(x.eq(0).logical_and(at::rand(x.sizes()) < 0.5), -x.abs(), x);
    if (run % 7 == 0) x[1].fill_(2);
    for (const auto axis : {GroupAxis::tokens, GroupAxis::channels}) {
      for (const double fraction : {0.02, 0.4, 1.0}) {
        if (!find_outliers(x, fraction, axis).index.defined()) continue;
        const auto index = [&](const at::Tensor& y) {
          const auto found = find_outliers(y, fraction, axis).index;
          return found.scalar_type() == at::kByte ? found : found.to(at::kInt);
        };
        expect_same(index, x);
      }
    }
  }
}

TEST(EncodesOnADevice, KeptTokensAreTheSameWhateverTies) {
  at::manual_seed(4);
  for (int run = 0; run < 60; ++run) {
    const auto scores = run % 3 == 0 ? at::randn({3, 40}) : at::randint(0, 1 + run % 4, {3, 40}).to(at::kFloat);
    if (run % 5 == 0) scores.narrow(1, 0, 4).fill_(INFINITY);
    for (const int64_t recent : {0, 1, 7, 38}) {
      for (const int64_t heavy : {0, 1, 5, 39 - static_cast<int>(recent), 60}) {
        expect_same([&](const at::Tensor& x) { return heaviest_and_recent(x, heavy, recent); }, scores);
      }
    }
    const auto x = at::randn({3, 40, 5});
    expect_same(
        [](const at::Tensor& rows, const at::Tensor& s) { return keep_rows(rows, heaviest_and_recent(s, 9, 3)); }, x,
        scores);
  }
}

// A check of a device's numbers is the caller's, and waits where it is collected.
TEST(EncodesOnADevice, ChecksWaitUntilTheyAreSettled) {
  auto x = at::randn({1, 8, 16});
  x[0][3][5] = INFINITY;
  const GroupFormat format{.bits = 4, .group_size = 16};
  EXPECT_THROW(quantize_groups(there(x), format), Error);
  ValueChecks checks;
  const int64_t before = n_reads();
  {
    const ValueChecks::Collecting later(checks);
    EXPECT_NO_THROW(quantize_groups(there(at::randn({1, 8, 16})), format));
    EXPECT_NO_THROW(quantize_groups(there(x), format));
    EXPECT_THROW(quantize_groups(x, format), Error);  // the CPU's cost nothing to look at
  }
  EXPECT_EQ(n_reads(), before);
  EXPECT_THROW(checks.settle(), Error);
  EXPECT_EQ(n_reads(), test::device() == emulated_device() ? before + 1 : before);
  EXPECT_NO_THROW(checks.settle());  // once
}

}  // namespace
}  // namespace kvc
