// Text <-> token ids of one model, from its tokenizer.json. The same ids and texts as Hugging Face's tokenizers
// package.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/added_tokens.h"
#include "model/bpe.h"
#include "model/decoder.h"
#include "model/normalizer.h"
#include "model/pre_tokenizer.h"

namespace kvc {

// Immutable after load; may be used from several threads at once.
class Tokenizer {
 public:
  // Reads dir/tokenizer.json; its "truncation" and "padding" are ignored. Throws Error naming the file and, of broken
  // JSON, the byte; of a component that is not supported, its type and the supported ones.
  static Tokenizer load(const std::filesystem::path& dir);

  // Texts of special tokens within `utf8` become these tokens; add_special_tokens adds those of the template (<s>).
  // Throws Error naming the byte offset where the text is not valid UTF-8.
  std::vector<int64_t> encode(std::string_view utf8, bool add_special_tokens) const;

  // Ids without a token (of a padded vocabulary) have no text. Throws Error on a negative id.
  std::string decode(std::span<const int64_t> ids, bool skip_special_tokens) const;

  int64_t vocab_size() const { return n_tokens_; }  // tokens, added ones included
  std::optional<int64_t> token_id(std::string_view token) const;

 private:
  void parse_post_processor_(const nlohmann::json& value, const std::string& where);

  std::vector<TextStep> normalizer_;
  std::vector<PieceStep> pre_tokenizer_;
  std::vector<TokensStep> decoder_;
  AddedTokens added_;
  Bpe bpe_;
  std::vector<int64_t> before_, after_;  // the template's special tokens around the text
  int64_t n_tokens_ = 0;
};

}  // namespace kvc
