// The loops over codes, for one kind of machine; each KVC_MACHINE is a file with flags of its own.
// Idea: 16 words of codes are one vector. Code k of each word is masked where it stands and converted as it is, so it
// comes times 2^(bits k), which the sum takes off at its end: two instructions before the multiply-add. A lane is
// always the same word of a row, so scales, zeros and weights are laid over the lanes by one fixed permutation.
#pragma once

#include "kernels/code_machines.h"
#include "kernels/machine_lanes.h"

namespace kvc::kernels::KVC_MACHINE {

constexpr int64_t kPart = 1024;  // tokens whose sum is kept in registers before it is added to the others'
#if defined(__AVX512F__)  // query heads taken together: where registers are fewer, more would cost minutes to compile
constexpr int kMostQueries = 4;
#elif defined(__AVX2__)
constexpr int kMostQueries = 2;
#else
constexpr int kMostQueries = 1;
#endif
constexpr int kMostOfLevels = kMostQueries > 2 ? 2 : 1;  // the same for codes that are no numbers
constexpr int kSums = 16;                                // of them at a time

// How a word holds codes. Numbers: in parts of 8 or 16 bits, each code masked where it stands in its part, so that it
// comes times a power of two, its unit's inverse. Centred ones lose their middle before anything is rounded: symmetric
// codes of zeros are zeros. Levels stand in a register, repeated for fewer than four bits: what is above a code does
// not count.
template <int kBits, CodeKind kKind>
struct Packed {
  static constexpr bool kIsNumber = kKind == CodeKind::number || kKind == CodeKind::centred;
  static constexpr int kCodes = 32 / kBits, kMasks = kIsNumber ? std::min(4, kCodes / 2) : 1;
  static constexpr int32_t kMiddle = kKind == CodeKind::centred ? (1 << (kBits - 1)) - 1 : 0;
  Ints masks[kMasks];
  Floats book = {};

  KVC_INLINE explicit Packed(const Codes& x) {
    if constexpr (kKind == CodeKind::level) {
      float levels[kLanes];
      for (int64_t l = 0; l < kLanes; ++l) levels[l] = x.levels[l % (1 << kBits)];
      book = load<Floats>(levels);
    }
#pragma GCC unroll 4
    for (int k = 0; k < kMasks; ++k) {
      masks[k] = Ints{} + (((1 << kBits) - 1) << kBits * k);
#ifdef __AVX512F__
      asm("" : "+v"(masks[k]));  // kept in a register: the compiler would make it anew for each use
#endif
    }
  }
  // Code k of each word, divided by its unit.
  KVC_INLINE Floats operator()(Ints words, int k) const {
    if constexpr (kKind == CodeKind::level) return pick(book, words >> k * kBits);
    if constexpr (kKind == CodeKind::e4m3) return e4m3_of(words << (24 - k * kBits));
    const Ints code = words >> (k / kMasks * kMasks * kBits) & masks[k % kMasks];
    return __builtin_convertvector(code - (kMiddle << kBits * (k % kMasks)), Floats);
  }
  static constexpr float unit(int k) { return 1.f / static_cast<float>(1 << kBits * (k % kMasks)); }
};

// n words, zeros behind the last
KVC_INLINE Ints words_at(const int32_t* x, int64_t n) {
  int32_t padded[kLanes];
  return words(n >= kLanes ? x : whole(x, 0, n, padded));
}

// sums += by scale code, bias += by zero, for the codes from k0 on of each word.
template <int kQ, int kPass, class P>
KVC_INLINE void add_products(const Floats (&by)[kQ], Floats scale, Floats zero, const P& packed, Ints codes, int k0,
                             Floats (&sums)[kQ][kPass], Floats (&bias)[kQ]) {
  Floats scaled[kQ];
#pragma GCC unroll 4
  for (int i = 0; i < kQ; ++i) {
    scaled[i] = by[i] * scale;
    bias[i] += by[i] * zero;
  }
#pragma GCC unroll 32
  for (int k = 0; k < kPass; ++k) {
    const Floats code = packed(codes, k0 + k);
#pragma GCC unroll 4
    for (int i = 0; i < kQ; ++i) sums[i][k] += scaled[i] * code;
  }
}

// Sums in the values' units. Unrolled, so that they stay in registers until then.
template <int kQ, int kPass, class P>
KVC_INLINE void finish(const Floats (&sums)[kQ][kPass], const Floats (&bias)[kQ], const P& packed, int k0,
                       Floats (&done)[kQ][kPass]) {
#pragma GCC unroll 4
  for (int i = 0; i < kQ; ++i) {
#pragma GCC unroll 32
    for (int k = 0; k < kPass; ++k) done[i][k] = sums[i][k] * packed.unit(k0 + k) + bias[i];
  }
}

// The loops are functions of their own: inlined into one they would share its registers badly.
// Rows of codes are channels, each vector kLanes words of tokens.
template <int kBits, int kQ>
[[gnu::noinline]] void score_token_groups(const Codes& x, ConstRows q, Rows scores) {
  constexpr int kCodes = 32 / kBits, kPass = std::min(kCodes, kSums / kQ);
  constexpr int64_t kTile = kLanes * kCodes;
  const Packed<kBits, CodeKind::number> packed(x);
  float transposed[kMaxHeadDim * kQ];  // [D, n_q]
  for (int64_t j = 0; j < x.head_dim; ++j) {
    for (int i = 0; i < kQ; ++i) transposed[j * kQ + i] = q.data[i * q.stride + j];
  }
  for (int64_t first = 0; first < x.n_tokens; first += kTile) {
    const int64_t word = first / kCodes, n_words = x.n_words - word;
    const int64_t group = first / x.group_size;
    int32_t behind[kLanes];  // of each lane, the groups after that one
    for (int64_t l = 0; l < kLanes; ++l) {
      behind[l] = static_cast<int32_t>(std::min((first + l * kCodes) / x.group_size, x.n_groups - 1) - group);
    }
    const Ints groups = words(behind);
    const int64_t n = std::min(kTile, x.n_tokens - first);
#pragma GCC unroll 8
    for (int k0 = 0; k0 < kCodes; k0 += kPass) {
      Floats sums[kQ][kPass] = {}, bias[kQ] = {};
      for (int64_t j = 0; j < x.head_dim; ++j) {
        const int32_t* row = x.words + j * x.n_words + word;
        __builtin_prefetch(row + kLanes, 0, 2);
        const Ints codes = words_at(row, n_words);
        const Floats scale = sides_at(x.scale, j * x.n_groups + group, groups);
        const Floats zero = sides_at(x.zero, j * x.n_groups + group, groups);
        Floats by[kQ];
#pragma GCC unroll 4
        for (int i = 0; i < kQ; ++i) by[i] = Floats{} + transposed[j * kQ + i];
        add_products<kQ, kPass>(by, scale, zero, packed, codes, k0, sums, bias);
      }
      Floats done[kQ][kPass];
      finish<kQ, kPass>(sums, bias, packed, k0, done);
      for (int i = 0; i < kQ; ++i) {
        float* out = scores.data + i * scores.stride + first;
        for (int k = 0; k < kPass; ++k) {
          const Floats sum = done[i][k];
          for (int64_t l = 0, t = k0 + k; t < n; ++l, t += kCodes) out[t] += sum[l];
        }
      }
    }
  }
}

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

// Some tokens of codes: words that may be read a vector beyond the last, and x^ = scale code + zero.
template <int kBits>
struct TokenRun {
  static constexpr int64_t kTokens = 64, kMostWords = kMaxHeadDim * kBits / 32;  // a group is one word at least
  const int32_t* words;
  float scale[kTokens * kMostWords + kLanes], zero[kTokens * kMostWords + kLanes];
  int32_t copied[kTokens * kMostWords + kLanes];

  KVC_INLINE void read(const Codes& x, int64_t first) {
    const int64_t n = std::min(kTokens, x.n_tokens - first), n_sides = n * x.n_groups, at = first * x.n_groups;
    words = x.words + first * x.n_words;
    if (first + kTokens + kLanes > x.n_tokens) {
      std::copy(words, words + n * x.n_words, copied);
      std::fill(copied + n * x.n_words, copied + kTokens * x.n_words + kLanes, 0);
      words = copied;
      std::fill(scale + n_sides, scale + kTokens * x.n_groups + kLanes, 0.f);
      std::fill(zero + n_sides, zero + kTokens * x.n_groups + kLanes, 0.f);
    }
    for (int64_t s = 0; s < n_sides; s += kLanes) {
      store(sides_at(x.scale, at + s), scale + s);
      store(x.zero.data ? sides_at(x.zero, at + s) : Floats{}, zero + s);
    }
  }
};

template <int kBits, int kQ, CodeKind kKind>
[[gnu::noinline]] void score_channel_groups(const Codes& x, ConstRows q, Rows scores) {
  constexpr int kCodes = 32 / kBits;
  constexpr int64_t kMostVectors = kMaxHeadDim / (kLanes * kCodes);
  const Lanes<kBits> lanes(x);
  const Packed<kBits, kKind> packed(x);
  Floats laid[kMostVectors][kQ][kCodes], totals[kMostVectors][kQ];  // q in the codes' units; its sum in a lane
  Place places[kMostVectors];
  for (int64_t v = 0; v < lanes.vectors; ++v) {
    places[v] = lanes.place(x, v);
    for (int i = 0; i < kQ; ++i) {
      totals[v][i] = Floats{};
      for (int k = 0; k < kCodes; ++k) {
        Floats part = {};
        for (int64_t l = 0; l < kLanes; ++l) {
          const int64_t j = places[v].channels[l] + k;
          part[l] = j < x.head_dim ? q.data[i * q.stride + j] : 0.f;
        }
        totals[v][i] += part;
        laid[v][i][k] = part * packed.unit(k);
      }
    }
  }
  const int64_t n_parts = kLanes / lanes.tokens;  // vectors of sums for 16 tokens
  const int64_t stride = lanes.tokens * x.n_words, side_stride = lanes.tokens * x.n_groups;
  TokenRun<kBits> run;
  for (int64_t first = 0; first < x.n_tokens; first += kLanes) {
    const int64_t in_run = first % run.kTokens;
    if (in_run == 0) run.read(x, first);
    Floats parts[kQ][kLanes];
    for (int64_t v = 0; v < lanes.vectors; ++v) {
      const int32_t* row = run.words + in_run * x.n_words + v * kLanes;
      const float *scales = run.scale + in_run * x.n_groups + places[v].group,
                  *zeros = run.zero + in_run * x.n_groups + places[v].group;
      for (int64_t part = 0; part < n_parts; ++part, row += stride, scales += side_stride, zeros += side_stride) {
        __builtin_prefetch(row + kAhead / 4);
        const Ints codes = words(row);
        const Floats scale = pick(load<Floats>(scales), places[v].groups),
                     zero = pick(load<Floats>(zeros), places[v].groups);
        for (int i = 0; i < kQ; ++i) {
          Floats sums[2] = {};
#pragma GCC unroll 32
          for (int k = 0; k < kCodes; ++k) sums[k % 2] += packed(codes, k) * laid[v][i][k];
          const Floats sum = scale * (sums[0] + sums[1]) + zero * totals[v][i];
          parts[i][part] = v == 0 ? sum : parts[i][part] + sum;
        }
      }
    }
    const int64_t n = std::min(kLanes, x.n_tokens - first);
    for (int i = 0; i < kQ; ++i) {
      add_lanes(folded(parts[i], n_parts), n, scores.data + i * scores.stride + first);
    }
  }
}

template <int kBits, int kQ, CodeKind kKind>
[[gnu::noinline]] void weigh_channel_groups(const Codes& x, ConstRows weights, Rows out) {
  constexpr int kCodes = 32 / kBits, kPass = std::min(kCodes, kSums / kQ);
  const Lanes<kBits> lanes(x);
  const Packed<kBits, kKind> packed(x);
  const Ints tokens = lanes_over(x.n_words);
  const int64_t stride = lanes.tokens * x.n_words, side_stride = lanes.tokens * x.n_groups;
  TokenRun<kBits> run;
  for (int64_t v = 0; v < lanes.vectors; ++v) {
    const Place place = lanes.place(x, v);
    for (int64_t begin = 0; begin < x.n_tokens; begin += kPart) {
      const int64_t end = std::min(x.n_tokens, begin + kPart);
#pragma GCC unroll 8
      for (int k0 = 0; k0 < kCodes; k0 += kPass) {
        Floats sums[kQ][kPass] = {}, bias[kQ] = {};
        for (int64_t first = begin; first < end; first += run.kTokens) {
          run.read(x, first);
          const int64_t n = std::min(run.kTokens, end - first);
          float w[kQ][run.kTokens + kLanes];
          for (int i = 0; i < kQ; ++i) {
            const float* from = weights.data + i * weights.stride + first;
            std::fill(std::copy(from, from + n, w[i]), w[i] + run.kTokens + kLanes, 0.f);
          }
          const int32_t* row = run.words + v * kLanes;
          const float *scales = run.scale + place.group, *zeros = run.zero + place.group;
          for (int64_t t = 0; t < n; t += lanes.tokens, row += stride, scales += side_stride, zeros += side_stride) {
            __builtin_prefetch(row + kAhead / 4);
            const Ints codes = words(row);
            const Floats scale = pick(load<Floats>(scales), place.groups),
                         zero = pick(load<Floats>(zeros), place.groups);
            Floats by[kQ];
#pragma GCC unroll 4
            for (int i = 0; i < kQ; ++i) {
              by[i] = lanes.tokens > 1 ? pick(load<Floats>(w[i] + t), tokens) : Floats{} + w[i][t];
            }
            add_products<kQ, kPass>(by, scale, zero, packed, codes, k0, sums, bias);
          }
        }
        Floats done[kQ][kPass];
        finish<kQ, kPass>(sums, bias, packed, k0, done);
        for (int i = 0; i < kQ; ++i) {
          for (int k = 0; k < kPass; ++k) {
            const Floats sum = done[i][k];
            for (int64_t l = 0; l < kLanes; ++l) {
              const int64_t j = place.channels[l] + k0 + k;
              if (j < x.head_dim) out.data[i * out.stride + j] += sum[l];
            }
          }
        }
      }
    }
  }
}

// f<bits, n_q, kind>(codes, in, out) over the query heads in runs of 4, 2 and 1, as far as the machine has them.
template <int kBits, CodeKind kKind, int kMost, class F>
KVC_INLINE void by_queries(const Codes& codes, ConstRows in, Rows out, F f) {
  for (int64_t i = 0; i < in.n;) {
    const ConstRows a{in.data + i * in.stride, in.stride, 0};
    const Rows b{out.data + i * out.stride, out.stride, 0};
    const int64_t left = in.n - i;
    if constexpr (kMost >= 4) {
      if (left >= 4) {
        f.template operator()<kBits, 4, kKind>(codes, a, b), i += 4;
        continue;
      }
    }
    if constexpr (kMost >= 2) {
      if (left >= 2) {
        f.template operator()<kBits, 2, kKind>(codes, a, b), i += 2;
        continue;
      }
    }
    f.template operator()<kBits, 1, kKind>(codes, a, b), i += 1;
  }
}

template <CodeKind kKind, int kMost, class F>
KVC_INLINE void by_bits(const Codes& codes, ConstRows in, Rows out, F f) {
  if (codes.bits == 2) return by_queries<2, kKind, kMost>(codes, in, out, f);
  if (codes.bits == 4) return by_queries<4, kKind, kMost>(codes, in, out, f);
  if constexpr (kKind == CodeKind::level) return by_queries<1, kKind, kMost>(codes, in, out, f);
  by_queries<8, kKind, kMost>(codes, in, out, f);
}

template <class F>
KVC_INLINE void by_kind(const Codes& codes, ConstRows in, Rows out, F f) {
  switch (codes.kind) {
    case CodeKind::number:
      return by_bits<CodeKind::number, kMostQueries>(codes, in, out, f);
    case CodeKind::centred:  // few methods': one query at a time
      return by_bits<CodeKind::centred, 1>(codes, in, out, f);
    case CodeKind::level:
      return by_bits<CodeKind::level, kMostOfLevels>(codes, in, out, f);
    case CodeKind::e4m3:
      return by_queries<8, CodeKind::e4m3, kMostOfLevels>(codes, in, out, f);
  }
}

inline void score_tokens(const Codes& codes, ConstRows q, Rows scores) {
  by_bits<CodeKind::number, kMostQueries>(
      codes, q, scores,
      []<int kBits, int kQ, CodeKind>(const Codes& x, ConstRows a, Rows b) { score_token_groups<kBits, kQ>(x, a, b); });
}
inline void score_channels(const Codes& codes, ConstRows q, Rows scores) {
  by_kind(codes, q, scores, []<int kBits, int kQ, CodeKind kKind>(const Codes& x, ConstRows a, Rows b) {
    score_channel_groups<kBits, kQ, kKind>(x, a, b);
  });
}
inline void weigh_channels(const Codes& codes, ConstRows weights, Rows out) {
  by_kind(codes, weights, out, []<int kBits, int kQ, CodeKind kKind>(const Codes& x, ConstRows a, Rows b) {
    weigh_channel_groups<kBits, kQ, kKind>(x, a, b);
  });
}

}  // namespace kvc::kernels::KVC_MACHINE
