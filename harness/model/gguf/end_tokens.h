// The tokens of a GGUF file that have a meaning: those that its metadata names, and those that end a generation.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gguf/gguf_file.h"

namespace kvc {

// The id of tokenizer.ggml.<name>. Where a vocabulary of sentencepiece's has no such key: 0 for "unknown_token_id",
// 1 for "bos_token_id" and 2 for "eos_token_id", if these are called <unk>, <s> and </s>. It may be no token's. Throws
// Error on a key of another type.
std::optional<int64_t> gguf_named_token(const GgufFile& file, const std::string& name);

// Those that llama.cpp ends at, each once: what the metadata names (tokenizer.ggml.eos_token_id, .eot_token_id, ...)
// in the order of the keys, then those known by their text, by id. A text counts where the file types the token as a
// control token, or types none. The ids that metadata names may be no token's. Throws Error on a key of another type.
std::vector<int64_t> gguf_end_tokens(const GgufFile& file);

}  // namespace kvc
