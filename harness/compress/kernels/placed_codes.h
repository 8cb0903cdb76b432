// Where the words of rows of codes stand in vectors, and some tokens of them with their scales, for one kind of
// machine.
#pragma once

#include "kernels/machine_lanes.h"

namespace kvc::kernels::KVC_MACHINE {

// Of a vector's lanes: the groups, counted from the first one, and the first channels.
struct Place {
  int64_t group = 0;
  Ints groups = {};
  int64_t channels[kLanes] = {};
};

// Where the words of rows of codes that are tokens stand in vectors: some tokens a vector, or some vectors a token.
template <int kBits>
struct Lanes {
  static constexpr int64_t kCodes = 32 / kBits;
  int64_t tokens, vectors;

  explicit Lanes(const Codes& x)
      : tokens(kLanes % x.n_words == 0 ? kLanes / x.n_words : 1), vectors((x.n_words + kLanes - 1) / kLanes) {}

  Place place(const Codes& x, int64_t v) const {
    Place place{.group = v * kLanes * kCodes / x.group_size};
    for (int64_t l = 0; l < kLanes; ++l) {
      const int64_t token = tokens > 1 ? l / x.n_words : 0, word = tokens > 1 ? l % x.n_words : v * kLanes + l;
      const int64_t group = std::min(word * kCodes, x.head_dim - 1) / x.group_size;
      place.channels[l] = word * kCodes;
      place.groups[l] = static_cast<int32_t>(token * x.n_groups + group - place.group);
    }
    return place;
  }
};

// Some tokens' words, which may be read a vector beyond the last; zeros behind the last token.
template <int kBits>
struct TokenWords {
  static constexpr int64_t kTokens = 64, kMostWords = kMaxHeadDim * kBits / 32;  // a group is one word at least
  const int32_t* words;
  int32_t copied[kTokens * kMostWords + kLanes];

  KVC_INLINE void read(const Codes& x, int64_t first) {
    words = x.words + first * x.n_words;
    if (first + kTokens + kLanes <= x.n_tokens) return;
    const int64_t n = std::min(kTokens, x.n_tokens - first);
    std::copy(words, words + n * x.n_words, copied);
    std::fill(copied + n * x.n_words, copied + kTokens * x.n_words + kLanes, 0);
    words = copied;
  }
};

// The same with their scales.
template <int kBits>
struct TokenRun : TokenWords<kBits> {
  using TokenWords<kBits>::kTokens, TokenWords<kBits>::kMostWords;
  float scale[kTokens * kMostWords + kLanes];

  KVC_INLINE void read(const Codes& x, int64_t first) {
    TokenWords<kBits>::read(x, first);
    read_numbers(x.scale, first * x.n_groups, kTokens * x.n_groups + kLanes, scale);
  }
};

}  // namespace kvc::kernels::KVC_MACHINE
