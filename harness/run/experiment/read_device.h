// Devices in experiments' files.
#pragma once

#include <string>

#include "contract/device_name.h"
#include "kvc/check.h"
#include "text/yaml_read.h"

namespace kvc {

inline constexpr const char* kDevices = "cpu, cuda:N, cuda-emulated";

// The device's name; fails at `value` where it is none.
inline std::string read_device(const YamlValue& value, const std::string& name) {
  try {
    parse_device_name(name);
  } catch (const Error& e) {
    value.fail(e.what());
  }
  return name;
}

}  // namespace kvc
