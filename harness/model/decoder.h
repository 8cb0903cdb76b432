// The decoder of tokenizer.json: turns the tokens' texts back into what was written.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace kvc {

using TokensStep = std::function<std::vector<std::string>(std::vector<std::string>)>;

// In the order of their use; for null, the tokens are joined with spaces. Throws Error on a type that is not supported.
std::vector<TokensStep> parse_decoder(const nlohmann::json& value, const std::string& where);

std::string join_decoded(std::vector<std::string> tokens, const std::vector<TokensStep>& steps);

}  // namespace kvc
