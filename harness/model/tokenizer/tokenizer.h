// Text <-> token ids of one model. The same ids and texts as the libraries that define the files: Hugging Face's
// tokenizers for tokenizer.json and for vocab.json with merges.txt, sentencepiece for tokenizer.model.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/tokenizer_parts.h"

namespace kvc {

// Immutable after load; may be used from several threads at once.
class Tokenizer {
 public:
  // Of a folder, reads the first that is there: tokenizer.json (its "truncation" and "padding" are ignored),
  // tokenizer.model, vocab.json with merges.txt; of a .gguf file, its metadata. Throws Error naming the file and, of
  // broken JSON, the byte; of a component that is not supported, its type and the supported ones; where there is no
  // file, all three.
  static Tokenizer load(const std::filesystem::path& model);

  // Texts of added tokens within `utf8` become these tokens; add_special_tokens adds those around a text (<s>).
  // Throws Error naming the byte offset where the text is not valid UTF-8.
  std::vector<int64_t> encode(std::string_view utf8, bool add_special_tokens) const;

  // Valid UTF-8, with U+FFFD for what the ids' bytes break. Ids without a token (of a padded vocabulary) have no text.
  // Throws Error on a negative id.
  std::string decode(std::span<const int64_t> ids, bool skip_special_tokens) const;

  // The text of generated ids without special tokens. Of a model that answers in channels (harmony: <|channel|>, its
  // name, <|message|>, its text) only that of the last channel named "final"; "" before it begins.
  std::string answer(std::span<const int64_t> ids) const;

  // Throws Error if the vocabulary, added tokens aside, has more tokens than the model's embedding has rows.
  void check_rows(int64_t n_rows, const std::string& where) const;

  int64_t vocab_size() const { return n_tokens_; }  // tokens, added ones included
  std::optional<int64_t> token_id(std::string_view token) const;

 private:
  friend class Detokenizer;

  Tokenizer(TokenizerParts parts, const std::string& where);  // where: of errors
  // What the decoder takes for an id; null where that is nothing. Throws Error on a negative id.
  const std::string* text_of_(int64_t id, bool skip_special_tokens) const;

  TokenizerParts parts_;
  int64_t n_tokens_ = 0;
};

}  // namespace kvc
