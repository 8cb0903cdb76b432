// The device that tests of devices use: the emulated one, or what KVC_TEST_DEVICE names (bench/gpu.sh).
#pragma once

#include <cstdlib>
#include <string_view>

#include "cuda_emulator/emulated_device.h"
#include "sandbox/device.h"

namespace kvc::test {

inline at::Device device() {
  const char* name = std::getenv("KVC_TEST_DEVICE");
  return name ? device_named(name) : emulated_device();
}

// LibTorch looks for CUDA once, in whatever test asks first: so a GPU is opened before any test.
inline const bool opened_first = [] {
  const char* name = std::getenv("KVC_TEST_DEVICE");
  return name && std::string_view(name).starts_with("cuda:") && device().is_cuda();
}();

}  // namespace kvc::test
