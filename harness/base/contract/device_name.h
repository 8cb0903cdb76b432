// Devices as experiments name them; whether this machine has them is another question (sandbox/device.h).
#pragma once

#include <string>

namespace kvc {

struct DeviceName {
  enum class Kind { cpu, cuda, emulated } kind;  // "cpu", "cuda:N", "cuda-emulated"
  int index = 0;                                 // N
};

DeviceName parse_device_name(const std::string& name);  // throws Error where it is another

}  // namespace kvc
