// Layouts and instructions against the tables of the PTX manual (warp-level matrix instructions, lop3, prmt), written
// here as the manual writes them: element i of a thread's fragment has this row and this column.

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "../cuda_emulator/schedules.h"
#include "cuda/device.cuh"
#include "tested_device.h"

namespace kvc::cuda_emulated {
namespace {

using tested::Vector;
const auto& instructions = tested::instructions();

struct Place {
  int row, column;
};

// mma.m16n8k16 of 16-bit elements: a has 8 a thread, b 4.
Place a16(int lane, int i) {
  const int row = (i < 2 || (i >= 4 && i < 6)) ? lane / 4 : lane / 4 + 8;
  return {row, lane % 4 * 2 + (i & 1) + (i >= 4 ? 8 : 0)};
}
Place b16(int lane, int i) { return {lane % 4 * 2 + (i & 1) + (i >= 2 ? 8 : 0), lane / 4}; }
// mma.m16n8k32 of 8-bit elements: a has 16 a thread, b 8.
Place a8(int lane, int i) {
  const int row = (i < 4 || (i >= 8 && i < 12)) ? lane / 4 : lane / 4 + 8;
  return {row, lane % 4 * 4 + (i & 3) + (i >= 8 ? 16 : 0)};
}
Place b8(int lane, int i) { return {lane % 4 * 4 + (i & 3) + (i >= 4 ? 16 : 0), lane / 4}; }
Place c(int lane, int i) { return {i < 2 ? lane / 4 : lane / 4 + 8, lane % 4 * 2 + (i & 1)}; }

// Matrices of small whole numbers, so every sum is exact; `encode` makes the bits of an element, `each` the bits it
// has.
template <class Sum, class Multiply, class Encode>
void expect_products(const Multiply& multiply, int depth, int each, const Encode& encode, Place (*place_a)(int, int),
                     Place (*place_b)(int, int)) {
  std::mt19937 random(3);
  std::vector<int> a(16 * depth), b(depth * 8);
  for (int& value : a) value = static_cast<int>(random() % 17) - 8;
  for (int& value : b) value = static_cast<int>(random() % 17) - 8;
  Vector<unsigned> a_bits(32 * 4), b_bits(32 * 2);
  const int parts = 32 / each;
  const unsigned mask = (1u << each) - 1;
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < 4 * parts; ++i) {
      const Place at = place_a(lane, i);
      a_bits[lane * 4 + i / parts] |= (encode(a[at.row * depth + at.column]) & mask) << i % parts * each;
    }
    for (int i = 0; i < 2 * parts; ++i) {
      const Place at = place_b(lane, i);
      b_bits[lane * 2 + i / parts] |= (encode(b[at.row * 8 + at.column]) & mask) << i % parts * each;
    }
  }
  under_all_schedules([&] {
    Vector<Sum> sums(32 * 4, 5);
    multiply(a_bits.data(), b_bits.data(), sums.data());
    tested::wait();
    for (int i = 0; i < 128; ++i) {
      const Place at = c(i / 4, i % 4);
      int expected = 5;
      for (int k = 0; k < depth; ++k) {
        expected += a[at.row * depth + k] * b[k * 8 + at.column];
      }
      EXPECT_EQ(sums[i], expected) << "lane " << i / 4 << ", " << i % 4;
    }
  });
}

TEST(Fragments, OfProductsAreThoseOfTheManual) {
  expect_products<float>(
      instructions.mma_f16, 16, 16, [](int x) { return unsigned{__half_as_ushort(half(x))}; }, a16, b16);
  expect_products<float>(
      instructions.mma_bf16, 16, 16, [](int x) { return unsigned{__bfloat16_as_ushort(nv_bfloat16(x))}; }, a16, b16);
  expect_products<int>(
      instructions.mma_s8, 32, 8, [](int x) { return static_cast<unsigned>(x); }, a8, b8);
}

void expect_loaded(unsigned count, bool transposed) {
  under_all_schedules([&] {
    Vector<unsigned> out(32 * count);
    instructions.ldmatrix(static_cast<int>(count), transposed, out.data());
    tested::wait();
    for (unsigned i = 0; i < 32 * count; ++i) {
      const unsigned lane = i / count, matrix = i % count, row = lane / 4, column = lane % 4 * 2;
      const unsigned first = 64 * matrix + (transposed ? 8 * column + row : 8 * row + column);
      const unsigned second = 64 * matrix + (transposed ? 8 * (column + 1) + row : 8 * row + column + 1);
      EXPECT_EQ(out[i], first | second << 16) << lane;
    }
  });
}

TEST(Fragments, OfLoadedMatricesAreThoseOfTheManual) {
  for (const unsigned count : {1, 2, 4}) {
    for (const bool transposed : {false, true}) expect_loaded(count, transposed);
  }
}

// Before: row lane / 4, columns lane % 4 * 2 and the next; after: the same of the transposed matrix.
TEST(Fragments, OfATransposedMatrixAreThoseOfTheManual) {
  under_all_schedules([] {
    Vector<unsigned> pairs(32);
    for (unsigned lane = 0; lane < 32; ++lane) {
      const unsigned row = lane / 4, column = lane % 4 * 2;
      pairs[lane] = (8 * row + column) | (8 * row + column + 1) << 16;
    }
    instructions.movmatrix(pairs.data());
    tested::wait();
    for (unsigned lane = 0; lane < 32; ++lane) {
      const unsigned row = lane / 4, column = lane % 4 * 2;
      EXPECT_EQ(pairs[lane], (8 * column + row) | (8 * (column + 1) + row) << 16) << lane;
    }
  });
}

// Of 32 lanes' bytes the first are copied, zeros follow, and what was there before is gone.
TEST(Instructions, CopyBytesIntoSharedMemoryAndZerosBehindThem) {
  for (const int bytes : {4, 8, 16}) {
    for (const int filled : {0, 1, bytes - 1, bytes}) {
      under_all_schedules([&] {
        Vector<unsigned char> from(32 * static_cast<size_t>(bytes)), to(from.size(), 0x55);
        for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<unsigned char>(1 + i % 250);
        instructions.cp_async(bytes, from.data(), filled, to.data());
        tested::wait();
        for (size_t i = 0; i < from.size(); ++i) {
          EXPECT_EQ(to[i], static_cast<int>(i) % bytes < filled ? from[i] : 0) << bytes << ", " << filled << ", " << i;
        }
      });
    }
  }
}

TEST(Instructions, ChooseBitsAndBytesAsTheManualDoes) {
  const unsigned a = 0x12F45678u, b = 0x9ABCDEF0u, c = 0x0F1E2D3Cu;
  const unsigned expected[tested::kOfBits] = {a & b,  // lop3: 0xF0 & 0xCC
                                              a | b | c,
                                              a ^ b ^ c,
                                              (a & b) | c,
                                              ((a & b) | c) ^ a,  // the manual's example
                                              a,                  // prmt
                                              b,
                                              0x78F4F0BCu,
                                              0xFFFF0078u,  // signs of bytes 4, 2, 0, and byte 0
                                              b,            // __byte_perm: without signs
                                              10 + 3 - 4 + 10 - 12,
                                              0x1E6A2F48u,  // __brev
                                              0xF012F456u,  // __funnelshift_r
                                              0xBCDEF012u};
  Vector<unsigned> out(tested::kOfBits);
  instructions.of_bits(a, b, c, out.data());
  tested::wait();
  for (size_t i = 0; i < out.size(); ++i) EXPECT_EQ(out[i], expected[i]) << i;
}

TEST(Instructions, RaiseTwoToAPower) {
  Vector<float> x(32), out(32);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i) * 8.37f - 140;
  x[31] = -3;
  instructions.exp2_approx(x.data(), out.data());
  tested::wait();
  EXPECT_EQ(out[0], 0.0f);  // 2^-140 is no normal number
  EXPECT_EQ(out[31], 0.125f);
  for (size_t i = 2; i < x.size(); ++i) {  // x[1] is -131.63
    const double exact = std::exp2(static_cast<double>(x[i]));
    EXPECT_NEAR(out[i], exact, exact * 0x1p-22) << x[i];
  }
}

// Every value is its own nearest, and the middle of two goes to the even one.
template <class Number>
void expect_rounded(unsigned infinity) {
  for (unsigned bits = 0; bits + 1 < infinity; ++bits) {
    const double low = Number::of_bits(bits), high = Number::of_bits(bits + 1);
    ASSERT_EQ(Number(low).bits, bits);
    const unsigned even = bits + (bits & 1), odd = bits + 1 - (bits & 1);
    ASSERT_EQ(Number((low + high) / 2).bits, even);
    const double towards_odd = bits & 1 ? -1 : 1;
    ASSERT_EQ(Number(std::nextafter((low + high) / 2, towards_odd * INFINITY)).bits, odd);
  }
}

TEST(NarrowFloats, RoundOnceToNearestEven) {
  expect_rounded<half>(0x7C00);
  expect_rounded<nv_bfloat16>(0x7F80);
  EXPECT_EQ(half(1e6).bits, 0x7C00);
  // 17/16 * 17/16 = 1 + 2^-3 + 2^-8 stands in the middle of two bfloat16; what is added to it decides.
  const nv_bfloat16 a(17.0f / 16), tiny(0x1p-60f);
  EXPECT_EQ(__hfma(a, a, nv_bfloat16(0.0f)).bits, 0x3F90);
  EXPECT_EQ(__hfma(a, a, tiny).bits, 0x3F91);
  EXPECT_EQ(__hfma(a, a, -tiny).bits, 0x3F90);
  EXPECT_EQ(__hfma(-a, a, -tiny).bits, 0xBF91);
}

}  // namespace
}  // namespace kvc::cuda_emulated
