// Memory of the emulated device (device_memory.h), in blocks of 512 bytes as CUDA's allocator gives them.
// New memory holds 0xff, a NaN of each type. What is allocated and freed is reported as a device's allocator does.
#pragma once

#include <c10/core/Allocator.h>

#include <cstddef>

namespace kvc {

constexpr size_t kDeviceBlock = 512;

c10::Allocator& emulated_memory();

}  // namespace kvc
