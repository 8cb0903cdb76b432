// Devices that this build or this machine cannot serve.
#include "sandbox/device.h"

#include <ATen/ATen.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "contract/stopwatch.h"
#include "kvc/check.h"
#include "sandbox/cuda_library.h"
#include "sandbox/device_clock.h"
#include "sandbox/host_state.h"
#include "sandbox/ledger.h"
#include "sandbox/memory_meter.h"
#include "support/message_of.h"
#include "support/test_device.h"

namespace kvc {
namespace {

std::filesystem::path libtorch_folder() {
  Dl_info info{};
  ::dladdr(reinterpret_cast<const void*>(&at::globalContext), &info);
  return std::filesystem::path(info.dli_fname ? info.dli_fname : "").parent_path();
}

TEST(Devices, AGpuNeedsKernelsOfItsCapabilityOrAnEarlierOne) {
  EXPECT_EQ(lacks_kernels(80, 80), "");  // A100
  EXPECT_EQ(lacks_kernels(80, 86), "");
  EXPECT_EQ(lacks_kernels(80, 90), "");   // H100
  EXPECT_EQ(lacks_kernels(80, 120), "");  // RTX 50
  EXPECT_EQ(lacks_kernels(80, 75),
            "a GPU of compute capability 7.5, expected 8.0 or later, which this kvc has kernels for");
  EXPECT_NE(lacks_kernels(80, 0), "");
  EXPECT_NE(lacks_kernels(0, 90).find("built without CUDA kernels"), std::string::npos);
}

TEST(Devices, NoneIsExplainedByDriverAndEnvironment) {
  EXPECT_EQ(why_no_device("CUDA driver version is insufficient for CUDA runtime version", 12040, 13000, nullptr),
            "CUDA driver version is insufficient for CUDA runtime version; the driver is for CUDA 12.4, LibTorch for "
            "13.0, which needs a later driver");
  EXPECT_EQ(why_no_device("", 0, 13000, nullptr), "no driver was found (libcuda.so.1)");
  EXPECT_EQ(why_no_device("no CUDA-capable device is detected", 13010, 13000, ""),
            "no CUDA-capable device is detected; CUDA_VISIBLE_DEVICES is ''");
}

TEST(Devices, OneThatThisMachineLacksIsRefusedByName) {
  const auto message = test::message_of([] { device_named("cuda:127"); });
  EXPECT_TRUE(message.starts_with("device 'cuda:127': ")) << message;
}

// What the host asks of LibTorch while compressors run on the CPU is nothing about CUDA, which LibTorch would answer
// once and for all.
TEST(Devices, CudasLibraryOpensBehindWorkOnTheCpu) {
  if (!std::filesystem::exists(libtorch_folder() / "libtorch_cuda.so")) GTEST_SKIP() << "LibTorch without CUDA";
  const HostState before;
  EXPECT_EQ(before.put_back(), "");
  at::mm(at::ones({2, 2}), at::ones({2, 2}));
  EXPECT_NO_THROW(open_cuda_library());
  EXPECT_EQ(HostState().put_back(), "");
}

// On a GPU (bench/gpu.sh) this is the work; a clock of the host around the calls would see them return at once.
TEST(DeviceMarks, MeasureWorkAndNotThatItWasAskedFor) {
  const auto device = test::device();
  const auto x = at::ones({device.is_cuda() ? 8192 : 128, device.is_cuda() ? 8192 : 128}, at::TensorOptions(device));
  at::mm(x, x);
  synchronize(device);
  const auto start = Clock::now();
  const DeviceMark from(device);
  at::mm(x, x);
  const DeviceMark to(device);
  const double asked = seconds_since(start);
  synchronize(device);
  const double all = seconds_since(start), seconds = from.seconds_to(to);
  EXPECT_LE(seconds, all);
  EXPECT_GE(seconds, all / 2) << "asked for in " << asked;
  EXPECT_EQ(from.is_apart(), device.is_cuda());
}

TEST(Devices, AGpusFreeMemoryIsItsOwn) {
  EXPECT_FALSE(free_device_bytes(at::kCPU));
  EXPECT_FALSE(free_device_bytes(emulated_device()));
  const auto device = test::device();
  if (!device.is_cuda()) GTEST_SKIP() << "no GPU";
  const auto options = at::TensorOptions(at::kByte).device(device);
  const int64_t free_bytes = free_device_bytes(device).value();
  EXPECT_GT(free_bytes, int64_t{1} << 30);
  const auto held = at::empty({1 << 29}, options);
  EXPECT_NEAR(static_cast<double>(free_bytes - free_device_bytes(device).value()), 1 << 29, 1 << 25);
}

// The first product takes cuBLAS's workspace, which no compressor is to hold.
TEST(Devices, OneThatIsNamedHoldsWhatLibrariesKeep) {
  const auto device = test::device();
  MemoryMeter meter;
  const int account = meter.take_account();
  {
    const MemoryMeter::Scope scope(meter, account);
    const auto x = at::ones({1, 64, 64}, at::TensorOptions(at::kHalf).device(device));
    at::bmm(x, x), at::mm(x[0], x[0]);
    synchronize(device);
  }
  EXPECT_EQ(meter.held_bytes(account).tensors, 0);
  if (device.is_cuda()) {  // the CPU's libraries keep some, too
    EXPECT_LE(meter.held_bytes(account).beside_tensors, 1 << 20);
  }
  EXPECT_EQ(ledger::opened(account), "");
}

}  // namespace
}  // namespace kvc
