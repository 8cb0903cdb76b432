// The normalizer of tokenizer.json: what happens to a text before it is cut into pieces.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace kvc {

using TextStep = std::function<std::string(std::string)>;

// In the order of their use; none for null. Throws Error on a type that is not supported.
std::vector<TextStep> parse_normalizer(const nlohmann::json& value, const std::string& where);

std::string normalize(std::string text, const std::vector<TextStep>& steps);

}  // namespace kvc
