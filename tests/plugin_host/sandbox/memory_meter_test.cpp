#include "sandbox/memory_meter.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
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

TEST(MemoryMeter, BooksWhatATeamMakesForItsMaster) {
  MemoryMeter meter;
  const int before = at::get_num_threads();
  at::set_num_threads(4);
  std::vector<at::Tensor> made(4);
  const auto make = [&] {
    at::parallel_for(0, 4, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) made[static_cast<size_t>(i)] = at::zeros({100}, at::kFloat);
    });
  };
  make();
  EXPECT_EQ(meter.live_bytes(MemoryMeter::kModel), 1600);
  {
    const MemoryMeter::Scope scope(meter, 3);
    make();
  }
  EXPECT_EQ(meter.live_bytes(MemoryMeter::kModel), 0);
  EXPECT_EQ(meter.live_bytes(3), 1600);
  at::set_num_threads(before);
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

// 100 of the model, then 50 and 20 of two sequences in turn: neither ever stood beside the other's.
TEST(MemoryMeter, APeakWithTheCommonAccountsIsOfOneMoment) {
  MemoryMeter meter;
  constexpr int kA = MemoryMeter::kFirstOwn, kB = kA + 1;
  const auto held = [&](int account, int64_t n_bytes) {
    const MemoryMeter::Scope scope(meter, account);
    return at::zeros({n_bytes}, at::kByte);
  };
  auto model = held(MemoryMeter::kModel, 100);
  meter.reset(kA);
  meter.reset(kB);
  meter.reset_all();
  {
    const auto a = held(kA, 50), b = held(kB, 20);
    EXPECT_EQ(meter.peak_of_all(), 170);
  }
  model.reset();
  {
    const auto a = held(kA, 70);
    const auto prefix = held(MemoryMeter::kPrefix, 60);
  }
  EXPECT_EQ(meter.peak_with_common(kA), 150);  // 100 + 50, not 100 + 70
  EXPECT_EQ(meter.peak_with_common(kB), 120);
  EXPECT_EQ(meter.peak_of_all(), 170);
  meter.reset(kA);
  EXPECT_EQ(meter.peak_with_common(kA), 0);
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
