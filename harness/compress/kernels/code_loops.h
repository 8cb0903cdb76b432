// The loops over codes, for one kind of machine; each KVC_MACHINE is a file with flags of its own. Codes that are whole
// numbers have whole_loops.h; here are those that stand for other values, levels or floats of 8 bits.
// Idea: 16 words of codes are one vector. A lane is always the same word of a row, so scales, zeros and weights are
// spread over the lanes by one fixed permutation.
#pragma once

#include "kernels/code_machines.h"
#include "kernels/whole_loops.h"

namespace kvc::kernels::KVC_MACHINE {

constexpr int64_t kPart = 1024;  // tokens whose sum is kept in registers before it is added to the others'
#if defined(__AVX512F__)  // query heads taken together: where registers are fewer, more would cost minutes to compile
constexpr int kMostQueries = 2;
#else
constexpr int kMostQueries = 1;
#endif
constexpr int kMostSumsOfLevels = 16;  // at a time

// How a word holds codes. Levels stand in a register, repeated for fewer than four bits: what is above a code does not
// count.
template <int kBits, CodeKind kKind>
struct Packed {
  static constexpr int kCodes = 32 / kBits;
  // What a code is comes back divided by both: one goes into factors, one into sums, where neither overflows.
  static constexpr float kOfFactors = kKind == CodeKind::level ? 1 : 0x1p60f,
                         kOfSums = kKind == CodeKind::e5m2 ? 0x1p52f : kOfFactors;
  Floats book = {};

  KVC_INLINE explicit Packed(const Codes& x) : Packed(x.levels) {}
  KVC_INLINE explicit Packed(const float* levels) {
    if constexpr (kKind == CodeKind::level) {
      float repeated[kLanes];
      for (int64_t l = 0; l < kLanes; ++l) repeated[l] = levels[l % (1 << kBits)];
      book = load<Floats>(repeated);
    }
  }
  // Code k of each word
  KVC_INLINE Floats operator()(Ints words, int k) const {
    if constexpr (kKind == CodeKind::level) return pick(book, words >> k * kBits);
    const Ints high = words << (24 - k * kBits);
    return kKind == CodeKind::e4m3 ? tiny_e4m3_of(high) : tiny_e5m2_of(high);
  }
};

// sums += by code, for the codes from k0 on of each word.
template <int kQ, int kPass, class P>
KVC_INLINE void add_products(const Floats (&by)[kQ], const P& packed, Ints codes, int k0, Floats (&sums)[kQ][kPass]) {
#pragma GCC unroll 32
  for (int k = 0; k < kPass; ++k) {
    const Floats code = packed(codes, k0 + k);
#pragma GCC unroll 4
    for (int i = 0; i < kQ; ++i) sums[i][k] += by[i] * code;
  }
}

// The loops are functions of their own: inlined into one they would share its registers badly.
template <int kBits, int kQ, CodeKind kKind>
[[gnu::noinline]] void score_channel_groups(const Codes& x, ConstRows q, Rows scores) {
  constexpr int kCodes = 32 / kBits;
  constexpr int64_t kMostVectors = kMaxHeadDim / (kLanes * kCodes);
  const Lanes<kBits> lanes(x);
  const Packed<kBits, kKind> packed(x);
  Floats packed_q[kMostVectors][kQ][kCodes];  // q
  Place places[kMostVectors];
  for (int64_t v = 0; v < lanes.vectors; ++v) {
    places[v] = lanes.place(x, v);
    for (int i = 0; i < kQ; ++i) {
      for (int k = 0; k < kCodes; ++k) {
        Floats part = {};
        for (int64_t l = 0; l < kLanes; ++l) {
          const int64_t j = places[v].channels[l] + k;
          part[l] = j < x.head_dim ? q.data[i * q.stride + j] : 0.f;
        }
        packed_q[v][i][k] = part * packed.kOfFactors;
      }
    }
  }
  const int64_t n_parts = kLanes / lanes.tokens;  // vectors of sums for 16 tokens
  const int64_t stride = lanes.tokens * x.n_words, scale_stride = lanes.tokens * x.n_groups;
  TokenRun<kBits> run;
  for (int64_t first = 0; first < x.n_tokens; first += kLanes) {
    const int64_t in_run = first % run.kTokens;
    if (in_run == 0) run.read(x, first);
    Floats parts[kQ][kLanes];
    for (int64_t v = 0; v < lanes.vectors; ++v) {
      const int32_t* row = run.words + in_run * x.n_words + v * kLanes;
      const float* scales = run.scale + in_run * x.n_groups + places[v].group;
      for (int64_t part = 0; part < n_parts; ++part, row += stride, scales += scale_stride) {
        __builtin_prefetch(row + kAhead / 4);
        const Ints codes = words(row);
        const Floats scale = pick(load<Floats>(scales), places[v].groups);
        for (int i = 0; i < kQ; ++i) {
          Floats sums[2] = {};
#pragma GCC unroll 32
          for (int k = 0; k < kCodes; ++k) sums[k % 2] += packed(codes, k) * packed_q[v][i][k];
          const Floats sum = scale * packed.kOfSums * (sums[0] + sums[1]);
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
[[gnu::noinline]] void accumulate_channel_groups(const Codes& x, ConstRows weights, Rows out) {
  constexpr int kCodes = 32 / kBits, kPass = std::min(kCodes, kMostSumsOfLevels / kQ);
  const Lanes<kBits> lanes(x);
  const Packed<kBits, kKind> packed(x);
  const Ints tokens = lanes_over(x.n_words);
  const int64_t stride = lanes.tokens * x.n_words, scale_stride = lanes.tokens * x.n_groups;
  TokenRun<kBits> run;
  for (int64_t v = 0; v < lanes.vectors; ++v) {
    const Place place = lanes.place(x, v);
    for (int64_t begin = 0; begin < x.n_tokens; begin += kPart) {
      const int64_t end = std::min(x.n_tokens, begin + kPart);
#pragma GCC unroll 8
      for (int k0 = 0; k0 < kCodes; k0 += kPass) {
        Floats sums[kQ][kPass] = {};
        for (int64_t first = begin; first < end; first += run.kTokens) {
          run.read(x, first);
          const int64_t n = std::min(run.kTokens, end - first);
          float w[kQ][run.kTokens + kLanes];
          for (int i = 0; i < kQ; ++i) {
            const float* from = weights.data + i * weights.stride + first;
            std::fill(std::copy(from, from + n, w[i]), w[i] + run.kTokens + kLanes, 0.f);
          }
          const int32_t* row = run.words + v * kLanes;
          const float* scales = run.scale + place.group;
          for (int64_t t = 0; t < n; t += lanes.tokens, row += stride, scales += scale_stride) {
            __builtin_prefetch(row + kAhead / 4);
            const Ints codes = words(row);
            const Floats scale = pick(load<Floats>(scales), place.groups) * packed.kOfFactors;
            Floats by[kQ];
#pragma GCC unroll 4
            for (int i = 0; i < kQ; ++i) {
              by[i] = (lanes.tokens > 1 ? pick(load<Floats>(w[i] + t), tokens) : Floats{} + w[i][t]) * scale;
            }
            add_products<kQ, kPass>(by, packed, codes, k0, sums);
          }
        }
        Floats done[kQ][kPass];  // unrolled, so that sums stay in registers until then
#pragma GCC unroll 4
        for (int i = 0; i < kQ; ++i) {
#pragma GCC unroll 32
          for (int k = 0; k < kPass; ++k) done[i][k] = sums[i][k] * packed.kOfSums;
        }
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

// f<bits, n_q, kind>(codes, in, out) over the query heads in runs of 2 and 1, as far as the machine has them.
template <int kBits, CodeKind kKind, class F>
KVC_INLINE void by_queries(const Codes& codes, ConstRows in, Rows out, F f) {
  for (int64_t i = 0; i < in.n;) {
    const ConstRows a{in.data + i * in.stride, in.stride, 0};
    const Rows b{out.data + i * out.stride, out.stride, 0};
    if constexpr (kMostQueries >= 2) {
      if (in.n - i >= 2) {
        f.template operator()<kBits, 2, kKind>(codes, a, b), i += 2;
        continue;
      }
    }
    f.template operator()<kBits, 1, kKind>(codes, a, b), i += 1;
  }
}

template <class F>
KVC_INLINE void by_kind(const Codes& codes, ConstRows in, Rows out, F f) {
  if (codes.kind == CodeKind::e4m3) return by_queries<8, CodeKind::e4m3>(codes, in, out, f);
  if (codes.kind == CodeKind::e5m2) return by_queries<8, CodeKind::e5m2>(codes, in, out, f);
  if (codes.bits == 1) return by_queries<1, CodeKind::level>(codes, in, out, f);
  if (codes.bits == 2) return by_queries<2, CodeKind::level>(codes, in, out, f);
  by_queries<4, CodeKind::level>(codes, in, out, f);
}

// f(some tokens, the first of them, query) for each of n queries, which so find the tokens in a cache.
template <class F>
KVC_INLINE void for_blocks(const Codes& codes, F f, int64_t n) {
  constexpr int64_t kBlock = 4096;
  for (int64_t first = 0; first < codes.n_tokens; first += kBlock) {
    Codes x = codes;
    x.n_tokens = std::min(kBlock, codes.n_tokens - first);
    x.words += first * codes.n_words;
    x.scale = behind(x.scale, first * codes.n_groups), x.zero = behind(x.zero, first * codes.n_groups);
    for (int64_t i = 0; i < n; ++i) f(x, first, i);
  }
}

KVC_INLINE bool is_whole(CodeKind kind) { return kind == CodeKind::number || kind == CodeKind::centred; }

// f<bits>() for whole numbers
template <class F>
KVC_INLINE void by_bits(const Codes& codes, F f) {
  if (codes.bits == 2) return f.template operator()<2>();
  if (codes.bits == 4) return f.template operator()<4>();
  f.template operator()<8>();
}

inline void score_tokens(const Codes& codes, ConstRows q, Rows scores) {
  by_bits(codes, [&]<int kBits>() { score_whole_tokens<kBits>(codes, q, scores); });
}
inline void score_channels(const Codes& codes, ConstRows q, Rows scores) {
  if (is_whole(codes.kind)) {
    return for_blocks(
        codes,
        [&](const Codes& x, int64_t first, int64_t i) {
          by_bits(x, [&]<int kBits>() {
            score_whole_channels<kBits>(x, q.data + i * q.stride, scores.data + i * scores.stride + first);
          });
        },
        q.n);
  }
  by_kind(codes, q, scores, []<int kBits, int kQ, CodeKind kKind>(const Codes& x, ConstRows a, Rows b) {
    score_channel_groups<kBits, kQ, kKind>(x, a, b);
  });
}
inline void accumulate_channels(const Codes& codes, ConstRows weights, Rows out) {
  if (is_whole(codes.kind)) {
    return for_blocks(
        codes,
        [&](const Codes& x, int64_t first, int64_t i) {
          by_bits(x, [&]<int kBits>() {
            accumulate_whole_channels<kBits>(x, weights.data + i * weights.stride + first, out.data + i * out.stride);
          });
        },
        weights.n);
  }
  by_kind(codes, weights, out, []<int kBits, int kQ, CodeKind kKind>(const Codes& x, ConstRows a, Rows b) {
    accumulate_channel_groups<kBits, kQ, kKind>(x, a, b);
  });
}

}  // namespace kvc::kernels::KVC_MACHINE
