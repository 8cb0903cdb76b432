// The loop of rotated_products.h, for one kind of machine; each KVC_MACHINE is a file with flags of its own.
#pragma once

#include "kernels/code_loops.h"
#include "kernels/rotated_products.h"

namespace kvc::kernels::KVC_MACHINE {

// A query's entries and those across, rotated to the middle of a tile.
struct Rotated {
  Floats along, across;
  KVC_INLINE Rotated(const float* packed_q, const float* tile) {
    const Floats a = load<Floats>(packed_q), b = load<Floats>(packed_q + kLanes);
    const Floats cosine = load<Floats>(tile), sine = load<Floats>(tile + kLanes);
    along = a * cosine + b * sine, across = b * cosine - a * sine;
  }
};

// A product that no sum takes in: its sums then wait for other units of the machine than products do.
KVC_INLINE Floats product(Floats a, Floats b) {
  Floats x = a * b;
#if defined(__AVX512F__)
  asm("" : "+v"(x));
#endif
  return x;
}

// Words of one tile, which may be read a vector beyond the last; copied where that is behind all tokens.
struct TileWords {
  static constexpr int64_t kMost = RotatedLayout::kSteps * std::max<int64_t>(kMaxHeadDim / 8, kLanes) + kLanes;
  const int32_t* words;
  int32_t copied[kMost];

  KVC_INLINE void read(const RotatedLayout& layout, const RotatedCodes& x, int64_t first) {
    const int64_t n_words = layout.n_words, tile = layout.tile_tokens();
    words = x.words + first * n_words;
    if ((first + tile) * n_words + kLanes <= x.n_tokens * n_words) return;
    const int64_t n = std::min(tile, x.n_tokens - first) * n_words;
    std::fill(std::copy(words, words + n, copied), copied + tile * n_words + kLanes, 0);
    words = copied;
  }
};

constexpr int64_t kBehind = RotatedLayout::kSteps / 2;  // steps on either side of a tile's middle

// parts = what zeros add to each step
KVC_INLINE void begin_with_zeros(const RotatedLayout& layout, const float* packed_q, const float* tile,
                                 const float* steps, Floats* parts) {
  constexpr int64_t kSome = 4;  // vectors at a time, in registers; zeros behind the last
  const int64_t begin = layout.n_codes * 2 * kLanes;
  for (int64_t first = 0; first < layout.n_zeros; first += kSome) {
    Floats along[kSome] = {}, across[kSome] = {};
    const float* at[kSome];
#pragma GCC unroll 4
    for (int64_t i = 0; i < kSome; ++i) {
      const int64_t place = begin + std::min(first + i, layout.n_zeros - 1) * 2 * kLanes;
      at[i] = steps + place;
      const Rotated q(packed_q + place, tile + place);
      if (first + i < layout.n_zeros) along[i] = q.along, across[i] = q.across;
    }
    for (int64_t j = 0; j < kBehind; ++j) {
      const int64_t step = j * layout.n_packed * 2 * kLanes;
      Floats x = {}, y = {};
#pragma GCC unroll 4
      for (int64_t i = 0; i < kSome; ++i) {
        x += along[i] * load<Floats>(at[i] + step), y += across[i] * load<Floats>(at[i] + step + kLanes);
      }
      const Floats plus = x + y, minus = x - y;
      parts[kBehind + j] = first == 0 ? plus : parts[kBehind + j] + plus;
      parts[kBehind - 1 - j] = first == 0 ? minus : parts[kBehind - 1 - j] + minus;
    }
  }
}

// folded() of 16, in registers.
template <int kN = RotatedLayout::kSteps>
KVC_INLINE Floats folded_all(const Floats* parts) {
  if constexpr (kN == 1) {
    return parts[0];
  } else {
    const Floats a = folded_all<kN / 2>(parts);
    return folded(a, folded_all<kN / 2>(parts + kN / 2));
  }
}

// The same of the codes of one vector of each step.
template <int kBits, int kQ>
KVC_INLINE void add_codes(const RotatedLayout& layout, const Packed<kBits, CodeKind::level>& packed,
                          const int32_t* rows, const float* const (&packed_q)[kQ], const float* tile,
                          const float* steps, Floats (&parts)[kQ][RotatedLayout::kSteps]) {
  constexpr int kCodes = 32 / kBits;
  const int64_t stride = layout.tokens * layout.n_words;
  Floats along[kQ][kCodes], across[kQ][kCodes];
#pragma GCC unroll 2
  for (int i = 0; i < kQ; ++i) {
#pragma GCC unroll 16
    for (int k = 0; k < kCodes; ++k) {
      const Rotated q(packed_q[i] + k * 2 * kLanes, tile + k * 2 * kLanes);
      along[i][k] = q.along, across[i][k] = q.across;
    }
  }
#pragma GCC unroll 1
  for (int64_t j = 0; j < kBehind; ++j, steps += layout.n_packed * 2 * kLanes) {
    const int32_t *behind = rows + (kBehind + j) * stride, *before = rows + (kBehind - 1 - j) * stride;
    __builtin_prefetch(behind + kAhead / 4), __builtin_prefetch(before + kAhead / 4);
    const Ints b = words(behind), a = words(before);
    Floats sums[kQ][2] = {};
#pragma GCC unroll 16
    for (int k = 0; k < kCodes; ++k) {
      const Floats cosine = load<Floats>(steps + k * 2 * kLanes), sine = load<Floats>(steps + (2 * k + 1) * kLanes);
      const Floats level_b = packed(b, k), level_a = packed(a, k);
#pragma GCC unroll 2
      for (int i = 0; i < kQ; ++i) {
        const Floats x = product(along[i][k], cosine), y = product(across[i][k], sine);
        sums[i][0] += (x + y) * level_b, sums[i][1] += (x - y) * level_a;
      }
    }
#pragma GCC unroll 2
    for (int i = 0; i < kQ; ++i) parts[i][kBehind + j] += sums[i][0], parts[i][kBehind - 1 - j] += sums[i][1];
  }
}

template <int kBits, int kQ>
[[gnu::noinline]] void score_rotated(const RotatedLayout& layout, const RotatedCodes& x,
                                     const Packed<kBits, CodeKind::level>& packed, ConstRows queries, Rows scores) {
  constexpr int64_t kCodes = 32 / kBits;
  const int64_t n_parts = kLanes / layout.tokens;  // vectors of sums for 16 tokens
  const float* tile = x.tiles;
  TileWords run;
  for (int64_t first = 0; first < x.n_tokens; first += layout.tile_tokens(), tile += layout.n_packed * 2 * kLanes) {
    run.read(layout, x, first);
    Floats parts[kQ][RotatedLayout::kSteps];
    for (int i = 0; i < kQ; ++i) {
      begin_with_zeros(layout, queries.data + i * queries.stride, tile, x.steps, parts[i]);
    }
    for (int64_t v = 0; v < layout.vectors; ++v) {
      const int64_t at = v * kCodes * 2 * kLanes;
      const float* packed_q[kQ];
      for (int i = 0; i < kQ; ++i) packed_q[i] = queries.data + i * queries.stride + at;
      add_codes<kBits, kQ>(layout, packed, run.words + v * kLanes, packed_q, tile + at, x.steps + at, parts);
    }
    for (int i = 0; i < kQ; ++i) {
      for (int64_t p = 0, t = first; p < RotatedLayout::kSteps && t < x.n_tokens; p += n_parts, t += kLanes) {
        add_lanes(n_parts == kLanes ? folded_all(parts[i]) : folded(parts[i] + p, n_parts),
                  std::min(kLanes, x.n_tokens - t), scores.data + i * scores.stride + t);
      }
    }
  }
}

template <int kBits>
KVC_INLINE void score_rotated_by(const RotatedLayout& layout, const RotatedCodes& x, ConstRows queries, Rows scores) {
  const Packed<kBits, CodeKind::level> packed(x.levels);
  for (int64_t i = 0; i < queries.n;) {
    const ConstRows a{queries.data + i * queries.stride, queries.stride, 0};
    const Rows b{scores.data + i * scores.stride, scores.stride, 0};
    if constexpr (kMostQueries >= 2) {
      if (queries.n - i >= 2) {
        score_rotated<kBits, 2>(layout, x, packed, a, b), i += 2;
        continue;
      }
    }
    score_rotated<kBits, 1>(layout, x, packed, a, b), i += 1;
  }
}

inline void score_rotated_codes(const RotatedLayout& layout, const RotatedCodes& x, ConstRows queries, Rows scores) {
  layout.bits == 2 ? score_rotated_by<2>(layout, x, queries, scores) : score_rotated_by<4>(layout, x, queries, scores);
}

}  // namespace kvc::kernels::KVC_MACHINE
