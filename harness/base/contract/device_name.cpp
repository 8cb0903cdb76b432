#include "contract/device_name.h"

#include <charconv>

#include "kvc/check.h"

namespace kvc {

DeviceName parse_device_name(const std::string& name) {
  if (name == "cpu") return {DeviceName::Kind::cpu};
  if (name == "cuda-emulated") return {DeviceName::Kind::emulated};
  DeviceName device{DeviceName::Kind::cuda, -1};
  const std::string digits = name.starts_with("cuda:") ? name.substr(5) : "";
  const auto end = digits.data() + digits.size();
  const bool whole = !digits.empty() && std::from_chars(digits.data(), end, device.index).ptr == end;
  KVC_CHECK(whole && device.index >= 0 && device.index < 128, "device '", name,
            "', expected cpu, cuda:N or cuda-emulated");
  return device;
}

}  // namespace kvc
