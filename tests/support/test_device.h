// The device that tests of devices use: the emulated one, or what KVC_TEST_DEVICE names (bench/gpu.sh).
#pragma once

#include <cstdlib>

#include "cuda_emulator/emulated_device.h"
#include "sandbox/device.h"

namespace kvc::test {

inline at::Device device() {
  const char* name = std::getenv("KVC_TEST_DEVICE");
  return name ? device_named(name) : emulated_device();
}

}  // namespace kvc::test
