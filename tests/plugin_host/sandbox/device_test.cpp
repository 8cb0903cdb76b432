// Devices that this build or this machine cannot serve.
#include "sandbox/device.h"

#include <gtest/gtest.h>

#include "kvc/check.h"
#include "support/message_of.h"

namespace kvc {
namespace {

TEST(Devices, AGpuNeedsKernelsOfItsCapabilityOrAnEarlierOne) {
  EXPECT_EQ(lacks_kernels(80, 80), "");  // A100
  EXPECT_EQ(lacks_kernels(80, 86), "");
  EXPECT_EQ(lacks_kernels(80, 90), "");   // H100
  EXPECT_EQ(lacks_kernels(80, 120), "");  // from the PTX of sm_90
  EXPECT_EQ(lacks_kernels(80, 75),
            "a GPU of compute capability 7.5, expected 8.0 or later, which this kvc has kernels for");
  EXPECT_NE(lacks_kernels(80, 0), "");
  EXPECT_NE(lacks_kernels(0, 90).find("built without CUDA kernels"), std::string::npos);
}

TEST(Devices, OneThatThisMachineLacksIsRefusedByName) {
  const auto message = test::message_of([] { device_named("cuda:127"); });
  EXPECT_TRUE(message.starts_with("device 'cuda:127': ")) << message;
}

}  // namespace
}  // namespace kvc
