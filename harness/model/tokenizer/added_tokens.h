// Added tokens: texts that are one token wherever they stand, special (<s>) or not.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/json_reader.h"
#include "tokenizer_steps/normalizer.h"

namespace kvc {

// A stretch of the input: an added token, or normalized text between them.
struct Segment {
  std::string text;
  std::optional<int64_t> id;
  bool at_start = false;  // begins at the first byte of the input
};

struct AddedToken {
  int64_t id = 0;
  std::string text;
  bool is_special = false;                                   // left out of a text that skips special tokens
  bool lstrip = false, rstrip = false, single_word = false;  // takes the spaces beside it; no word beside it
  bool is_normalized = false;                                // matches the normalized text

  // The fields that tokenizer.json and tokenizer_config.json share; all but "content" may be absent.
  static AddedToken parse(const JsonObject& entry, int64_t id, bool is_special);
};

class AddedTokens {
 public:
  // From tokenizer.json's "added_tokens" (null: none).
  static AddedTokens parse(const nlohmann::json& value, const std::string& where,
                           const std::vector<TextStep>& normalizer);

  // Throws Error naming `where` if the text or the id is taken.
  void add(const AddedToken& token, const std::string& where, const std::vector<TextStep>& normalizer);
  // A token of the vocabulary that is special without being found in texts.
  void mark_special(int64_t id) { special_.insert(id); }

  // Cuts the text at the tokens that match it as it is, normalizes what lies between, and cuts that at the others.
  std::vector<Segment> split(std::string_view text, const std::vector<TextStep>& normalizer) const;

  const std::map<std::string, int64_t, std::less<>>& ids() const { return ids_; }
  // What a token decodes to: normalized where it is matched in normalized text, as the tokenizers package has it.
  const std::map<int64_t, std::string>& texts() const { return texts_; }
  bool is_special(int64_t id) const { return special_.contains(id); }

 private:
  // A tree of bytes that finds the longest token at a place.
  class Finder {
   public:
    void add(std::string_view text, const AddedToken& token);
    void split(const Segment& segment, std::vector<Segment>& out) const;

   private:
    // The length of the longest token that begins at text[at], and the token; length 0 where none does.
    std::pair<size_t, const AddedToken*> longest(std::string_view text, size_t at) const;

    std::unordered_map<uint64_t, uint64_t> next_;        // node << 8 | byte -> node; the root is 0
    std::unordered_map<uint64_t, AddedToken> token_of_;  // node -> the token that ends there
    std::array<bool, 256> begins_{};                     // by first byte
  };

  Finder as_written_, normalized_;
  std::map<std::string, int64_t, std::less<>> ids_;
  std::map<int64_t, std::string> texts_;
  std::set<int64_t> special_;
};

}  // namespace kvc
