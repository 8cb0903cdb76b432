// Answers that end by repeating themselves.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace kvc {

// Whether the last tokens repeat what stands before them: with some period p of at most 64 tokens, each of the last
// max(32, 2 p) is the token p before it. So a stretch is there at least three times, and single tokens 33 times.
bool ends_in_loop(std::span<const int64_t> token_ids);
// The same of a JSON list of token ids, as samples store them.
bool ends_in_loop(std::string_view token_ids_json);

}  // namespace kvc
