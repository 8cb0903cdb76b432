#include "cuda_emulator/emulated_device.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "cuda_emulator/emulated_memory.h"
#include "kvc/check.h"
#include "sandbox/memory_meter.h"

namespace kvc {
namespace {

at::Tensor there(const at::Tensor& x) { return x.to(emulated_device()); }

TEST(EmulatedDevice, OperationsGiveWhatTheCpuGives) {
  const auto x = at::randn({4, 7, 8}), y = at::randn({4, 7, 8}), square = at::matmul(x.transpose(1, 2), x);
  const auto expect = [](const at::Tensor& got, const at::Tensor& expected) {
    ASSERT_TRUE(got.device() == emulated_device());
    EXPECT_TRUE(at::equal(got.cpu(), expected));
  };
  expect(there(x) + 2 * there(y), x + 2 * y);
  expect(there(x).transpose(0, 1).flatten(1).narrow(1, 3, 9), x.transpose(0, 1).flatten(1).narrow(1, 3, 9));
  expect(at::cat({there(x), there(y)}, 1), at::cat({x, y}, 1));
  expect(there(x).softmax(-1), x.softmax(-1));
  expect(std::get<1>(there(x).sort(true, 1, true)), std::get<1>(x.sort(true, 1, true)));
  expect(there(x).masked_fill(there(x) > 0, 0), x.masked_fill(x > 0, 0));
  for (int i = 0; i < 200; ++i) {
    const auto [squares, vectors] = at::linalg_eigh(there(square));  // which gives its results their sizes
    expect(squares, std::get<0>(at::linalg_eigh(square)));
  }
  EXPECT_EQ(there(x).sum().item<float>(), x.sum().item<float>());
  auto written = there(x).clone();
  written.narrow(1, 2, 3).copy_(there(y).narrow(1, 0, 3));
  written[0].fill_(1);
  auto same = x.clone();
  same.narrow(1, 2, 3).copy_(y.narrow(1, 0, 3));
  same[0].fill_(1);
  expect(written, same);
}

TEST(EmulatedDevice, RefusesTensorsOfTwoDevices) {
  EXPECT_THROW(at::mm(there(at::ones({2, 2})), at::ones({2, 2})), Error);
  EXPECT_EQ((there(at::ones({3})) * at::scalar_tensor(2)).sum().item<float>(), 6);  // a number may be the CPU's
}

TEST(EmulatedDevice, HostCodeThatReadsItsMemoryIsStopped) {
  const auto x = there(at::ones({8}));
  EXPECT_DEATH(std::printf("%f", static_cast<double>(*x.const_data_ptr<float>())), "");
}

TEST(EmulatedDevice, CountsWhatTheHostReads) {
  const auto x = there(at::randn({4, 5})), mask = x > 0, index = there(at::tensor({1, 3}, at::kLong));
  const auto reads = [](const auto& run) {
    const int64_t before = n_reads_of_emulated_device();
    run();
    return n_reads_of_emulated_device() - before;
  };
  EXPECT_EQ(reads([&] { x.cpu(); }), 1);
  EXPECT_EQ(reads([&] { x[0][0].item<float>(); }), 1);
  EXPECT_EQ(reads([&] { (void)at::equal(x, x); }), 1);
  EXPECT_EQ(reads([&] { mask.nonzero(); }), 1);
  EXPECT_GE(reads([&] { x.index({mask}); }), 1);
  EXPECT_EQ(reads([&] { x.masked_select(mask); }), 1);
  EXPECT_EQ(reads([&] { x.repeat_interleave(at::ones({5}, index.options()), 1); }), 1);
  EXPECT_EQ(reads([&] {
              there(at::ones({3}));
              x.index({index}), x.index_select(0, index), x.masked_fill(mask, 0), x.sort(1), at::where(mask, x, 0);
              x.repeat_interleave(at::ones({5}, index.options()), 1, 5), x.chunk(2), x.to(at::kHalf), x.clone();
              x.sum(), mask.all(), at::stack({x, x}).amax({1, 2}), x[0].fill_(2), there(x);
            }),
            0);
}

TEST(EmulatedDevice, MemoryIsCountedInBlocksAndGivenBack) {
  emulated_device();
  MemoryMeter meter;
  const int account = meter.take_account();
  const MemoryMeter::Scope scope(meter, account);
  const auto options = at::TensorOptions(at::kByte).device(emulated_device());
  auto small = at::empty({1}, options), large = at::empty({1025}, options);
  EXPECT_EQ(meter.live_bytes(account), static_cast<int64_t>(4 * kDeviceBlock));
  EXPECT_TRUE(at::empty({1}, options).cpu().eq(0xff).all().item<bool>());
  small.reset(), large.reset();
  EXPECT_EQ(meter.live_bytes(account), 0);
}

}  // namespace
}  // namespace kvc
