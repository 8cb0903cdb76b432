// Devices by the names that experiments use.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <optional>
#include <string>

namespace kvc {

// "cpu", "cuda:N" or "cuda-emulated" (emulated_device.h). Throws where the name is another, this machine has no such
// device, or this build has no kernels for it.
c10::Device device_named(const std::string& name);

// Why a build whose kernels begin at sm_<least> (0: it has none) serves no GPU of that compute capability (86: 8.6);
// "" where it serves it.
std::string lacks_kernels(int least, int capability);

// What is said where CUDA sees no device: its own words, the versions (1000 major + 10 minor) of CUDA that the driver
// (0: there is none) and LibTorch are for, and CUDA_VISIBLE_DEVICES, or null.
std::string why_no_device(const std::string& cuda_says, int driver, int runtime, const char* visible);

// Bytes that a GPU has free for this process, what LibTorch keeps for its next tensors included; nothing of a device
// whose memory is the machine's.
std::optional<int64_t> free_device_bytes(c10::Device device);
void synchronize(c10::Device device);  // until it has done all queued work

}  // namespace kvc
