// What a mutation puts in: numbers at the edges of types, and text that JSON has or must not have.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace kvc_fuzz {

const std::vector<nlohmann::json>& numbers();
const std::vector<std::string>& fragments();
std::string repeated(const std::string& text, size_t n);

}  // namespace kvc_fuzz
