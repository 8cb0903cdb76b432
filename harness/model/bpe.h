// Byte-pair encoding: a vocabulary and ranked merges, applied in near-linear time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "model/json_reader.h"

namespace kvc {

class Bpe {
 public:
  // From tokenizer.json's "model". Throws Error on another type than BPE and on options that are not supported.
  static Bpe parse(const JsonObject& model);

  // Appends the ids of one piece of valid UTF-8.
  void encode(std::string_view piece, std::vector<int64_t>& ids) const;

  std::optional<int64_t> id(std::string_view token) const;
  const std::unordered_map<int64_t, std::string>& tokens() const { return tokens_; }

 private:
  struct Merge {
    int64_t rank = 0;
    int64_t id = 0;  // of the merged token
  };
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };

  static uint64_t pair_key(int64_t left, int64_t right) {
    return static_cast<uint64_t>(left) << 32 | static_cast<uint64_t>(right);
  }
  void read_vocab(const JsonObject& model);
  void read_merges(const JsonObject& model);
  std::vector<int64_t> characters(std::string_view piece) const;
  void merge_(std::vector<int64_t>& ids) const;

  std::unordered_map<std::string, int64_t, Hash, std::equal_to<>> ids_;
  std::unordered_map<int64_t, std::string> tokens_;
  std::unordered_map<uint64_t, Merge> merges_;  // by pair_key
  std::vector<int64_t> byte_ids_;               // [256] of "<0x00>" ...; -1 where absent; empty without byte fallback
  std::optional<int64_t> unknown_id_;
  bool fuse_unknown_ = false;
  bool whole_piece_first_ = false;  // ignore_merges
};

}  // namespace kvc
