// Devices by the names that experiments give them.
#pragma once

#include <c10/core/Device.h>

#include <string>

namespace kvc {

// "cpu", "cuda:N" or "cuda-emulated" (emulated_device.h). Throws where the name is another, or this machine has no such
// device.
c10::Device device_named(const std::string& name);

void synchronize(c10::Device device);  // until all that was asked of it is done

}  // namespace kvc
