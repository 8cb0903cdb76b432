// Weights of 8 bits on a device: the CPU's bits, in one pass.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "model/quantized_linear.h"
#include "sandbox/memory_meter.h"
#include "support/test_device.h"

namespace kvc {
namespace {

TEST(DeviceWeights, CodesBecomeTheModelsTypeWithoutAnotherCopy) {
  constexpr int64_t n = 96, k = 64;
  for (const int64_t group : {0, 16}) {
    const auto here = quantized({at::randn({n, k}), {}, {}}, 8, group);
    Linear there = here;
    there.weight = here.weight.to(test::device()), there.scale = here.scale.to(test::device());
    const auto expected = expanded(here, at::kHalf).weight;
    MemoryMeter meter;
    meter.reset_all();
    const auto got = expanded(there, at::kHalf).weight;
    if (got.is_cuda()) {  // the emulated one converts
      EXPECT_EQ(meter.peak_of_all(), static_cast<int64_t>(got.nbytes()));
    }
    EXPECT_TRUE(at::equal(got.cpu(), expected));
  }
}

}  // namespace
}  // namespace kvc
