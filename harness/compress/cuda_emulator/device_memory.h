#pragma once
// Where the emulated device's memory is. Its addresses are reserved and may not be touched, so that host code which
// takes a device's pointer for its own is stopped there; a kernel reaches the bytes at a fixed distance from them.

#include <cstddef>
#include <cstdint>

namespace kvc::cuda_emulated {

constexpr std::uintptr_t kDeviceBegin = 0x2000'0000'0000;
constexpr std::size_t kDeviceBytes = std::size_t{1} << 36;
constexpr std::uintptr_t kDeviceToHost = 0x0400'0000'0000;

// The bytes of a device's pointer; a pointer to any other memory as it is.
template <class T>
T* bytes_of_device(T* pointer) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  return address - kDeviceBegin < kDeviceBytes ? reinterpret_cast<T*>(address + kDeviceToHost) : pointer;
}

}  // namespace kvc::cuda_emulated
