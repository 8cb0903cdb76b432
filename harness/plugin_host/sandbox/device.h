// Devices by the names that experiments use.
#pragma once

#include <c10/core/Device.h>

#include <string>

namespace kvc {

// "cpu", "cuda:N" or "cuda-emulated" (emulated_device.h). Throws where the name is another, this machine has no such
// device, or this build has no kernels for it.
c10::Device device_named(const std::string& name);

// Why a build whose kernels begin at sm_<least> (0: it has none) serves no GPU of that compute capability (86: 8.6);
// "" where it serves it.
std::string lacks_kernels(int least, int capability);

void synchronize(c10::Device device);  // until it has done all queued work

}  // namespace kvc
