// A SHA-256 as a YAML file gives it.
#pragma once

#include <string>

#include "text/yaml_read.h"

namespace kvc {

// 64 hex digits in lower case, or an error with the value's place.
inline std::string read_sha256(const YamlValue& value) {
  auto text = value.string();
  if (text.size() != 64 || text.find_first_not_of("0123456789abcdef") != std::string::npos)
    value.fail(value.name(), " is ", value.found(), ", expected 64 hex digits");
  return text;
}

}  // namespace kvc
