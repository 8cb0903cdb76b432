// Kernels that are right give what plain loops give, under every schedule, and no check finds fault with them.

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "sample_kernels.h"
#include "schedules.h"

namespace kvc::cuda_emulated {
namespace {

std::vector<float> random_floats(std::size_t count) {
  std::mt19937 random(7);
  std::uniform_real_distribution<float> numbers(-1, 1);
  std::vector<float> made(count);
  std::generate(made.begin(), made.end(), [&] { return numbers(random); });
  return made;
}

std::vector<int> random_ints(std::size_t count, int below) {
  std::mt19937 random(7);
  std::vector<int> made(count);
  std::generate(made.begin(), made.end(), [&] { return static_cast<int>(random() % below); });
  return made;
}

TEST(EmulatedKernels, SumABlock) {
  const auto in = random_floats(5 * 300);
  under_all_schedules([&] {
    std::vector<float> sums(5, -1);
    block_sums(in.data(), sums.data(), 300, 5);
    for (int block = 0; block < 5; ++block) {
      EXPECT_NEAR(sums[block], std::accumulate(&in[block * 300], &in[block * 300] + 300, 0.0), 1e-4);
    }
  });
}

TEST(EmulatedKernels, ScanAWarp) {
  const auto in = random_ints(32, 100);
  std::vector<int> expected(32);
  std::partial_sum(in.begin(), in.end(), expected.begin());
  under_all_schedules([&] {
    std::vector<int> out(32);
    warp_scan(in.data(), out.data());
    EXPECT_EQ(out, expected);
  });
}

TEST(EmulatedKernels, VoteInBlocksAndWarps) {
  const auto in = random_ints(96, 1000);
  std::vector<int> expected(6);
  for (int i = 0; i < 96; ++i) {
    expected[0] += in[i] & 1;
    expected[3 + i / 32] |= (in[i] & 1) << i % 32;
  }
  expected[2] = 1;
  under_all_schedules([&] {
    std::vector<int> counts(6);
    block_votes(in.data(), counts.data(), 96);
    EXPECT_EQ(counts, expected);
  });
}

TEST(EmulatedKernels, FillOneBufferWhileTheOtherIsRead) {
  const auto in = random_floats(9 * 128);
  under_all_schedules([&] {
    std::vector<float> out(128);
    pipelined_sum(in.data(), out.data(), 9);
    for (int i = 0; i < 128; ++i) {
      double sum = 0;
      for (int tile = 0; tile < 9; ++tile) {
        sum += in[tile * 128 + (i + 1) % 128];
      }
      EXPECT_NEAR(out[i], sum, 1e-5);
    }
  });
}

class MatrixProducts : public testing::TestWithParam<bool> {};

TEST_P(MatrixProducts, AreThoseOfFloat64) {
  constexpr int rows = 32, columns = 24, depth = 48;
  std::vector<half> a(rows * depth), b(depth * columns);
  const auto numbers = random_floats(a.size() + b.size());
  std::copy_n(numbers.begin(), a.size(), a.begin());
  std::copy_n(numbers.begin() + a.size(), b.size(), b.begin());
  under_all_schedules([&] {
    std::vector<float> c(rows * columns);
    matrix_product(a.data(), b.data(), c.data(), rows, columns, depth, GetParam());
    for (int i = 0; i < rows * columns; ++i) {
      const int row = i / columns, column = i % columns;
      double sum = 0;
      for (int k = 0; k < depth; ++k) {
        sum += double(float(a[row * depth + k])) * float(b[GetParam() ? column * depth + k : k * columns + column]);
      }
      EXPECT_NEAR(c[i], sum, 1e-5) << row << ", " << column;
    }
  });
}
INSTANTIATE_TEST_SUITE_P(OfEitherLayout, MatrixProducts, testing::Bool());

TEST(EmulatedKernels, CountWithAtomics) {
  const auto in = random_ints(1000, 17);
  std::vector<int> expected(17);
  std::for_each(in.begin(), in.end(), [&](int bin) { ++expected[bin]; });
  under_all_schedules([&] {
    std::vector<int> counts(17);
    histogram(in.data(), counts.data(), 1000, 17);
    EXPECT_EQ(counts, expected);
  });
}

TEST(EmulatedKernels, MeetAtNamedBarriers) {
  const auto in = random_ints(128, 1000);
  under_all_schedules([&] {
    std::vector<int> out(128);
    pairs_through_named_barriers(in.data(), out.data());
    for (int i = 0; i < 128; ++i) {
      EXPECT_EQ(out[i], in[i ^ 32]);
    }
  });
}

}  // namespace
}  // namespace kvc::cuda_emulated
