// Byte-pair encoding: a vocabulary and ranked merges, applied in near-linear time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/json_reader.h"
#include "tokenizer_steps/merge_table.h"
#include "tokenizer_steps/word_table.h"

namespace kvc {

class Bpe {
 public:
  // From tokenizer.json's "model". Throws Error on another type than BPE and on options that are not supported.
  // in_byte_alphabet: the pieces come in the byte alphabet, so that they could as well be given as bytes.
  static Bpe parse(const JsonObject& model, bool in_byte_alphabet);

  // Whether pieces are to be given as bytes: they are in the alphabet, and the vocabulary can do without what it lacks.
  bool takes_bytes() const { return takes_bytes_; }

  // Appends the ids of one piece: bytes, or valid UTF-8.
  void encode(std::string_view piece, std::vector<int64_t>& ids) const;

  std::optional<int64_t> id(std::string_view token) const;
  const std::string* token(int64_t id) const;  // null where the id has none
  int64_t size() const { return static_cast<int64_t>(ids_.size()); }

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };

  void read_vocab_(const JsonObject& model);
  void read_merges_(const JsonObject& model);
  void read_unknown_(const JsonObject& model);
  bool index_bytes_();
  void index_characters_();
  void index_words_();
  void find_openers_();
  void encode_characters_(std::string_view piece, std::vector<int64_t>& ids) const;
  bool add_unknown_(std::string_view character, bool after_unknown, std::vector<int32_t>& symbols) const;
  void add_word_(std::string_view word, std::vector<int32_t>& symbols, std::vector<int64_t>& ids) const;
  int32_t symbol_(char32_t c) const { return c < characters_.size() ? characters_[c] : -1; }

  std::unordered_map<std::string, int64_t, Hash, std::equal_to<>> ids_;
  std::unordered_map<int64_t, std::string> tokens_;
  std::vector<std::pair<int32_t, int32_t>> merge_order_;  // as read; empty once it is indexed
  MergeTable merges_;
  WordTable words_;                  // a piece -> the one id it encodes to
  std::vector<int32_t> characters_;  // by code point, or by byte: its id, or -1
  std::vector<bool> is_opener_;      // by id, see find_openers_
  std::vector<int32_t> byte_ids_;    // [256] of "<0x00>" ...; -1 where absent; empty without byte fallback
  std::optional<int32_t> unknown_id_;
  bool takes_bytes_ = false;
  bool fuse_unknown_ = false;
  bool whole_piece_first_ = false;  // ignore_merges
};

}  // namespace kvc
