// The vocabulary of a GGUF file, looked through: what its tokenizers "gpt2" and "llama" share.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "gguf/gguf_file.h"
#include "tokenizer/tokenizer_parts.h"

namespace kvc {

enum class TokenType { normal = 1, unknown, control, user_defined, unused, byte };

struct GgufVocabulary {
  const GgufFile& file;
  const std::vector<std::string>& tokens;  // each UTF-8, no two the same
  std::vector<TokenType> types;            // of each token
};

// Throws Error naming file, key, index and value where the lists contradict each other or the embedding.
GgufVocabulary read_gguf_vocabulary(const GgufFile& file);

bool gguf_flag(const GgufFile& file, const std::string& key, bool absent);

// The id that tokenizer.ggml.<name> gives, where it is there. Throws Error where it is no token's.
std::optional<int64_t> gguf_special_id(const GgufVocabulary& vocabulary, const std::string& name);

// How text is cut before byte-pair encoding, by tokenizer.ggml.pre, as tokenizer.json would say it.
struct GgufPreTokenizer {
  nlohmann::json steps = {}, normalizer = {};
  bool ignores_merges = false;  // a piece that is a token as a whole is that token
  bool adds_bos = false;        // where the file does not say
};
GgufPreTokenizer read_gguf_pre_tokenizer(const GgufFile& file);

// Leaves one token of type unknown, as sentencepiece wants it: that of tokenizer.ggml.unknown_token_id, or the only one
// of that type. Further ones, with which converters padded vocabularies, become unused. Throws Error where none is
// told.
void settle_unknown(GgufVocabulary& vocabulary);

// "llama": merges by score, which sentencepiece does, of a vocabulary with one unknown token. Model and decoder only.
TokenizerParts read_gguf_pieces(const GgufVocabulary& vocabulary);

}  // namespace kvc
