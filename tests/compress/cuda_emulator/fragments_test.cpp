// Layouts and instructions against the tables of the PTX manual (warp-level matrix instructions, lop3, prmt), written
// here as the manual writes them: element i of a thread's fragment has this row and this column.

#include <gtest/gtest.h>

#include <random>

#include "cuda/device.cuh"
#include "schedules.h"

namespace kvc::cuda_emulated {
namespace {

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

template <class Sum, auto Multiply>
__global__ void product(gmem_ptr<const unsigned> a, gmem_ptr<const unsigned> b, gmem_ptr<Sum> sums) {
  const int lane = threadIdx.x;
  Sum sum[4];
  unsigned of_a[4], of_b[2];
  for (int i = 0; i < 4; ++i) {
    of_a[i] = a[lane * 4 + i];
    sum[i] = sums[lane * 4 + i];
  }
  for (int i = 0; i < 2; ++i) {
    of_b[i] = b[lane * 2 + i];
  }
  Multiply(sum, of_a, of_b, Where::current());
  for (int i = 0; i < 4; ++i) {
    sums[lane * 4 + i] = sum[i];
  }
}

// Matrices of small whole numbers, so every sum is exact; `encode` makes the bits of an element, `each` the bits it
// has.
template <class Sum, auto Multiply, class Encode>
void expect_products(int depth, int each, const Encode& encode, Place (*place_a)(int, int),
                     Place (*place_b)(int, int)) {
  std::mt19937 random(3);
  std::vector<int> a(16 * depth), b(depth * 8);
  for (int& value : a) value = static_cast<int>(random() % 17) - 8;
  for (int& value : b) value = static_cast<int>(random() % 17) - 8;
  std::vector<unsigned> a_bits(32 * 4), b_bits(32 * 2);
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
    std::vector<Sum> sums(32 * 4, 5);
    KVC_LAUNCH((product<Sum, Multiply>), dim3(1), dim3(32), 0, nullptr, checked<const unsigned>(a_bits.data(), 128),
               checked<const unsigned>(b_bits.data(), 64), checked(sums.data(), 128));
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
  expect_products<float, mma_f16>(
      16, 16, [](int x) { return unsigned{__half_as_ushort(half(x))}; }, a16, b16);
  expect_products<float, mma_bf16>(
      16, 16, [](int x) { return unsigned{__bfloat16_as_ushort(nv_bfloat16(x))}; }, a16, b16);
  expect_products<int, mma_s8>(
      32, 8, [](int x) { return static_cast<unsigned>(x); }, a8, b8);
}

template <int Count, bool Transposed>
__global__ void load(gmem_ptr<unsigned> out) {
  KVC_SHARED(uint4, rows, 32);
  const smem_ptr<unsigned short> numbers = pointer_cast<unsigned short>(rows);
  for (int i = threadIdx.x; i < 256; i += 32) {
    numbers[i] = static_cast<unsigned short>(i);  // 64 matrix + 8 row + column
  }
  __syncwarp();
  unsigned to[Count];
  if constexpr (Transposed) {
    ldmatrix_trans<Count>(to, rows + threadIdx.x % (8 * Count));
  } else {
    ldmatrix<Count>(to, rows + threadIdx.x % (8 * Count));
  }
  for (int i = 0; i < Count; ++i) {
    out[threadIdx.x * Count + i] = to[i];
  }
}

template <int Count, bool Transposed>
void expect_loaded() {
  under_all_schedules([] {
    std::vector<unsigned> out(32 * Count);
    KVC_LAUNCH((load<Count, Transposed>), dim3(1), dim3(32), 0, nullptr, checked(out.data(), out.size()));
    for (int i = 0; i < 32 * Count; ++i) {
      const unsigned lane = i / Count, matrix = i % Count, row = lane / 4, column = lane % 4 * 2;
      const unsigned first = 64 * matrix + (Transposed ? 8 * column + row : 8 * row + column);
      const unsigned second = 64 * matrix + (Transposed ? 8 * (column + 1) + row : 8 * row + column + 1);
      EXPECT_EQ(out[i], first | second << 16) << lane;
    }
  });
}

TEST(Fragments, OfLoadedMatricesAreThoseOfTheManual) {
  expect_loaded<1, false>();
  expect_loaded<2, false>();
  expect_loaded<4, false>();
  expect_loaded<1, true>();
  expect_loaded<2, true>();
  expect_loaded<4, true>();
}

__global__ void turn(gmem_ptr<unsigned> pairs) {
  const unsigned pair = pairs[threadIdx.x];
  pairs[threadIdx.x] = movmatrix_trans(pair);
}

// Before: row lane / 4, columns lane % 4 * 2 and the next; after: the same of the transposed matrix.
TEST(Fragments, OfATurnedMatrixAreThoseOfTheManual) {
  under_all_schedules([] {
    std::vector<unsigned> pairs(32);
    for (unsigned lane = 0; lane < 32; ++lane) {
      const unsigned row = lane / 4, column = lane % 4 * 2;
      pairs[lane] = (8 * row + column) | (8 * row + column + 1) << 16;
    }
    KVC_LAUNCH(turn, dim3(1), dim3(32), 0, nullptr, checked(pairs.data(), pairs.size()));
    for (unsigned lane = 0; lane < 32; ++lane) {
      const unsigned row = lane / 4, column = lane % 4 * 2;
      EXPECT_EQ(pairs[lane], (8 * column + row) | (8 * (column + 1) + row) << 16) << lane;
    }
  });
}

TEST(Instructions, ChooseBitsAndBytesAsTheManualDoes) {
  const unsigned a = 0x12F45678u, b = 0x9ABCDEF0u, c = 0x0F1E2D3Cu;
  EXPECT_EQ(lop3<0xC0>(a, b, c), a & b);  // 0xF0 & 0xCC
  EXPECT_EQ(lop3<0xFE>(a, b, c), a | b | c);
  EXPECT_EQ(lop3<0x96>(a, b, c), a ^ b ^ c);
  EXPECT_EQ(lop3<0xEA>(a, b, c), (a & b) | c);
  EXPECT_EQ(lop3<0x1A>(a, b, c), ((a & b) | c) ^ a);  // the manual's example: (a & b | c) ^ a
  EXPECT_EQ(prmt(a, b, 0x3210), a);
  EXPECT_EQ(prmt(a, b, 0x7654), b);
  EXPECT_EQ(prmt(a, b, 0x0246), 0x78F4F0BCu);
  EXPECT_EQ(prmt(a, b, 0xCA80), 0xFFFF0078u);  // signs of bytes 4, 2, 0, and byte 0
  EXPECT_EQ(__byte_perm(a, b, 0xFEDC), b);     // without signs
  EXPECT_EQ(__dp4a(0x01FF02FE, 0x03040506, 10), 10 + 3 - 4 + 10 - 12);
  EXPECT_EQ(__brev(1), 0x80000000u);
  EXPECT_EQ(__funnelshift_r(a, b, 8), 0xF012F456u);
  EXPECT_EQ(__funnelshift_l(a, b, 8), 0xBCDEF012u);
  EXPECT_EQ(exp2_approx(-3), 0.125f);
  EXPECT_EQ(exp2_approx(-140), 0.0f);
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
