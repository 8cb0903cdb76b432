// A hash table from short texts to token ids, laid out for look-ups: open addressing, one cache line a probe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kvc {

class WordTable {
 public:
  // Empties the table and makes room for so many words.
  void reset(size_t n_words);
  // The word must not be there yet. Throws Error where the table is full.
  void add(std::string_view word, int32_t id);
  int32_t find(std::string_view word) const;  // -1 where it is not there

 private:
  struct Slot {
    uint32_t hash = 0;
    int32_t id = -1;  // -1: empty
    uint32_t begin = 0, n_bytes = 0;
  };
  static uint64_t hash_(std::string_view word);

  std::vector<Slot> slots_;  // a power of two of them, at most half of them used
  std::string texts_;
  size_t n_words_ = 0, longest_ = 0;
};

}  // namespace kvc
