#include "tokenizer_steps/word_table.h"

#include <bit>
#include <cstring>

#include "kvc/check.h"

namespace kvc {

// Eight bytes at a time, each round a multiplication whose upper half is folded back.
uint64_t WordTable::hash_(std::string_view word) {
  constexpr uint64_t kOdd = 0x9E3779B97F4A7C15u;
  const auto mix = [](uint64_t state, uint64_t bytes) {
    const auto product = static_cast<unsigned __int128>(state ^ bytes) * kOdd;
    return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
  };
  uint64_t state = word.size() * kOdd, bytes = 0;
  for (; word.size() >= 8; word.remove_prefix(8)) {
    std::memcpy(&bytes, word.data(), 8);
    state = mix(state, bytes);
  }
  bytes = 0;
  std::memcpy(&bytes, word.data(), word.size());
  return mix(mix(state, bytes), kOdd);
}

void WordTable::reset(size_t n_words) {
  slots_.assign(std::bit_ceil(2 * n_words + 2), {});
  texts_.clear();
  n_words_ = longest_ = 0;
}

void WordTable::add(std::string_view word, int32_t id) {
  KVC_CHECK(2 * (n_words_ + 1) <= slots_.size(), "word table: no room for more than ", n_words_, " words");
  KVC_CHECK(texts_.size() + word.size() <= UINT32_MAX, "word table: more than ", UINT32_MAX, " bytes of text");
  const auto hash = hash_(word);
  size_t at = hash & (slots_.size() - 1);
  while (slots_[at].id >= 0) at = (at + 1) & (slots_.size() - 1);
  slots_[at] = {static_cast<uint32_t>(hash >> 32), id, static_cast<uint32_t>(texts_.size()),
                static_cast<uint32_t>(word.size())};
  texts_ += word;
  longest_ = std::max(longest_, word.size());
  ++n_words_;
}

int32_t WordTable::find(std::string_view word) const {
  if (word.size() > longest_ || slots_.empty()) return -1;
  const auto hash = hash_(word);
  for (size_t at = hash & (slots_.size() - 1);; at = (at + 1) & (slots_.size() - 1)) {
    const auto& slot = slots_[at];
    if (slot.id < 0) return -1;
    if (slot.hash == static_cast<uint32_t>(hash >> 32) && slot.n_bytes == word.size() &&
        std::memcmp(texts_.data() + slot.begin, word.data(), word.size()) == 0) {
      return slot.id;
    }
  }
}

}  // namespace kvc
