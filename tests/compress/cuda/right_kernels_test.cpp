// Kernels that are right give what plain loops give, under every schedule, and no check finds fault with them.

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "../cuda_emulator/schedules.h"
#include "cuda/device.cuh"
#include "tested_device.h"

namespace kvc::cuda_emulated {
namespace {

using tested::Vector;

Vector<float> random_floats(std::size_t count) {
  std::mt19937 random(7);
  std::uniform_real_distribution<float> numbers(-1, 1);
  Vector<float> made(count);
  std::generate(made.begin(), made.end(), [&] { return numbers(random); });
  return made;
}

Vector<int> random_ints(std::size_t count, int below) {
  std::mt19937 random(7);
  Vector<int> made(count);
  std::generate(made.begin(), made.end(), [&] { return static_cast<int>(random() % below); });
  return made;
}

const auto& kernels = tested::sample_kernels();

TEST(SampleKernels, SumABlock) {
  const auto in = random_floats(5 * 300);
  under_all_schedules([&] {
    Vector<float> sums(5, -1);
    kernels.block_sums(in.data(), sums.data(), 300, 5);
    tested::wait();
    for (int block = 0; block < 5; ++block) {
      EXPECT_NEAR(sums[block], std::accumulate(&in[block * 300], &in[block * 300] + 300, 0.0), 1e-4);
    }
  });
}

TEST(SampleKernels, ScanAWarp) {
  const auto in = random_ints(32, 100);
  Vector<int> expected(32);
  std::partial_sum(in.begin(), in.end(), expected.begin());
  under_all_schedules([&] {
    Vector<int> out(32);
    kernels.warp_scan(in.data(), out.data());
    tested::wait();
    EXPECT_EQ(out, expected);
  });
}

TEST(SampleKernels, VoteInBlocksAndWarps) {
  const auto in = random_ints(96, 1000);
  Vector<int> expected(6);
  for (int i = 0; i < 96; ++i) {
    expected[0] += in[i] & 1;
    expected[3 + i / 32] |= (in[i] & 1) << i % 32;
  }
  expected[2] = 1;
  under_all_schedules([&] {
    Vector<int> counts(6);
    kernels.block_votes(in.data(), counts.data(), 96);
    tested::wait();
    EXPECT_EQ(counts, expected);
  });
}

TEST(SampleKernels, FillOneBufferWhileTheOtherIsRead) {
  const auto in = random_floats(9 * 128);
  under_all_schedules([&] {
    Vector<float> out(128);
    kernels.pipelined_sum(in.data(), out.data(), 9);
    tested::wait();
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
  Vector<half> a(rows * depth), b(depth * columns);
  const auto numbers = random_floats(a.size() + b.size());
  std::copy_n(numbers.begin(), a.size(), a.begin());
  std::copy_n(numbers.begin() + a.size(), b.size(), b.begin());
  under_all_schedules([&] {
    Vector<float> c(rows * columns);
    kernels.matrix_product(a.data(), b.data(), c.data(), rows, columns, depth, GetParam());
    tested::wait();
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

TEST(SampleKernels, CountWithAtomics) {
  const auto in = random_ints(1000, 17);
  Vector<int> expected(17);
  std::for_each(in.begin(), in.end(), [&](int bin) { ++expected[bin]; });
  under_all_schedules([&] {
    Vector<int> counts(17);
    kernels.histogram(in.data(), counts.data(), 1000, 17);
    tested::wait();
    EXPECT_EQ(counts, expected);
  });
}

TEST(SampleKernels, MeetAtNamedBarriers) {
  const auto in = random_ints(128, 1000);
  under_all_schedules([&] {
    Vector<int> out(128);
    kernels.pairs_through_named_barriers(in.data(), out.data());
    tested::wait();
    for (int i = 0; i < 128; ++i) {
      EXPECT_EQ(out[i], in[i ^ 32]);
    }
  });
}

}  // namespace
}  // namespace kvc::cuda_emulated
