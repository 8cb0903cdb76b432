// Writing YAML that the strict reader reads back as it was.
#pragma once

#include <yaml-cpp/yaml.h>

#include <string>

namespace kvc {

// Block style, without comments. What was quoted is quoted: "4" stays a text.
std::string write_yaml(const YAML::Node& node);

}  // namespace kvc
