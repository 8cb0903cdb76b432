// Answers that end by repeating themselves.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace kvc {

// Whether the answer ends in a repetition: for some period p of at most 64 tokens, each of its last max(32, 2 p) tokens
// equals the token p positions earlier. So a phrase occurs at least three times in a row, and a single token 33 times.
bool ends_in_loop(std::span<const int64_t> token_ids);
// The same of a JSON list of token ids, as samples store them.
bool ends_in_loop(std::string_view token_ids_json);

}  // namespace kvc
