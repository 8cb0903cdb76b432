#include "generate/memory_meter.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "kvc/check.h"

namespace kvc {
namespace {

TEST(MemoryMeter, BooksATensorOnTheOpenAccountUntilItIsFreed) {
  MemoryMeter meter;
  at::Tensor kept;
  {
    const MemoryMeter::Scope scope(meter, 1);
    kept = at::zeros({10}, at::kFloat);
  }
  EXPECT_EQ(meter.live_bytes(1), 40);
  EXPECT_EQ(meter.live_bytes(MemoryMeter::kModel), 0);
  kept.reset();
  EXPECT_EQ(meter.live_bytes(1), 0);
  EXPECT_EQ(meter.peak_bytes(1), 40);
}

TEST(MemoryMeter, PeakIsTheHighestSinceItsReset) {
  MemoryMeter meter;
  { const auto gone = at::zeros({1000}, at::kDouble); }
  EXPECT_EQ(meter.peak_bytes(MemoryMeter::kModel), 8000);
  meter.reset(MemoryMeter::kModel);
  { const auto smaller = at::zeros({10}, at::kDouble); }
  EXPECT_EQ(meter.peak_bytes(MemoryMeter::kModel), 80);
}

TEST(MemoryMeter, TensorsThatLiveTogetherAddUp) {
  MemoryMeter meter;
  const MemoryMeter::Scope scope(meter, 3);
  const auto a = at::zeros({2, 8}, at::kHalf), b = at::zeros({3}, at::kByte);
  EXPECT_EQ(meter.live_bytes(3), 32 + 3);
}

TEST(MemoryMeter, AnAllocationBeyondTheLimitIsAnErrorWhereItIsAskedFor) {
  MemoryMeter meter;
  meter.set_limit(100);
  const MemoryMeter::Scope scope(meter, 2);
  const auto a = at::zeros({15}, at::kFloat), b = at::zeros({10}, at::kFloat);  // 100 bytes
  EXPECT_FALSE(meter.hit_limit());
  try {
    at::zeros({1}, at::kByte);
    FAIL() << "one byte more was let through";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "memory limit: 1 bytes more make 101, allowed: 100");
  }
  EXPECT_TRUE(meter.hit_limit());
}

}  // namespace
}  // namespace kvc
