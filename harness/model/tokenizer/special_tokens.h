// The special tokens that a model folder names beside its vocabulary: tokenizer_config.json, special_tokens_map.json
// and added_tokens.json, any of which may be absent.
#pragma once

#include <filesystem>

#include "tokenizer/tokenizer_parts.h"

namespace kvc {

inline constexpr const char* kSpecialTokenNames[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                                     "pad_token", "cls_token", "mask_token"};

// What holds where no file says otherwise.
struct SpecialTokenDefaults {
  std::optional<std::string> bos, eos;
  bool adds_bos = false, adds_eos = false;
};

// Adds them to parts.added, and those around a text (add_bos_token, add_eos_token) to parts.before and parts.after.
// Reads parts.model for their ids. Throws Error naming file and token where a token has no id, or two.
void read_special_tokens(const std::filesystem::path& dir, const SpecialTokenDefaults& defaults, TokenizerParts& parts);

}  // namespace kvc
