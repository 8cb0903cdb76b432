// The loops over codes that are whole numbers, for one kind of machine.
// Idea: a factor, be it a query's entry or a weight times a scale, is a whole number of units, a power of two near the
// 23rd bit of the largest factor of its sum, and so three signed digits of eight bits. Four bytes of codes times four
// digits are added up by one instruction; the sums are integers, so that they are the same in any order and on any
// machine, and are rounded when they become floats. Where four codes of a sum lie in four rows, the rows' bytes are
// interleaved first; their factors' digits are interleaved by the same steps and so stand where the codes do.
//
// Example: a token of D = 64 channels with codes of 4 bits is 8 words; channel j is nibble j % 8 of word j / 8, from
// the lowest on. Of the word 0x90C4A735 of channels 0 to 7, two masks take the even and the odd channels as bytes:
//   channel              0     1     2     3     4     5     6     7
//   code                 5     3     7    10     4    12     0     9
//   words & 0x0f0f0f0f   byte 0      byte 1      byte 2      byte 3           channels 0, 2, 4, 6
//   words >> 4 & ..            byte 0      byte 1      byte 2      byte 3     channels 1, 3, 5, 7
//   q                    0.3   0.7   -1    0     1.5   0     0     0
// The largest |q| of the group is 1.5, so the unit is 2^-22, and q in units has the digits d0 + 256 d1 + 65536 d2:
//   0.3: 1258291 = 51 + 256 * 51 + 65536 * 19       -1:  -4194304 = 65536 * -64
//   0.7: 2936013 = -51 + 256 * -51 + 65536 * 45     1.5: 6291456 = 65536 * 96
// One sum of codes times digits for each digit, two instructions of four products each:
//   d0: 5 * 51 + 3 * -51 = 102     d1: 5 * 51 + 3 * -51 = 102     d2: 5 * 19 + 3 * 45 + 7 * -64 + 4 * 96 = 166
// The word's sum is exactly 102 + 256 * 102 + 65536 * 166 = 10905190 units, 2.5999999; the score is the sum of the
// group's words times its scale, and its zero times the sum of q. score_plain (plain_codes.h) computes the same, one
// code after another.
#pragma once

#include <numeric>

#include "kernels/machine_lanes.h"
#include "kernels/placed_codes.h"

namespace kvc::kernels::KVC_MACHINE {

constexpr int kDigits = 3;

KVC_INLINE Ints size_bits(Floats x) { return (Ints)x & 0x7fffffff; }
KVC_INLINE Ints larger(Ints a, Ints b) { return select(a > b, a, b); }
KVC_INLINE Ints smaller(Ints a, Ints b) { return select(a < b, a, b); }

// The units, lane by lane, of factors whose largest have these bits: the largest is 2^22 to 2^23 of its unit, and not
// more than three digits have. Not a number where the largest is none.
struct Units {
  Floats size, inverse;

  KVC_INLINE explicit Units(Ints largest) {
    constexpr int32_t kAboveMost = 0x10101;  // lifts fractions above those of 127 (1 + 2^8 + 2^16) to the next exponent
    const Ints exponent = larger(((largest + kAboveMost) >> 23) - 22, Ints{} + 1);
    const Ints is_none = (largest >> 23) == 0xff;
    size = (Floats)select(is_none, Ints{} + 0x7fc00000, exponent << 23);
    inverse = (Floats)(~is_none & (254 - exponent) << 23);
  }
};

// x in units, its digits in the bytes of a word from the lowest on.
KVC_INLINE Ints digits_of(Floats x, Floats inverse) {
  constexpr int32_t kOffsets = 0x808080;  // of digits from 0 to 255
  return (rounded(x * inverse) + kOffsets) ^ kOffsets;
}

// Three sums of products with digits -> one of products with units
KVC_INLINE Floats joined_digits(const Ints* sums) {
  return floats_of(sums[2]) * 65536.f + floats_of((sums[1] << 8) + sums[0]);
}
KVC_INLINE Ints digit_of(Ints digits, int digit) { return digits << (24 - 8 * digit) >> 24; }

// The bytes of codes, kBits of each; a number is its code, a centred one its code less the middle.
template <int kBits>
struct Whole {
  static constexpr int kParts = 8 / kBits;  // codes of a byte
  static constexpr int32_t kMask = 0x01010101 * ((1 << kBits % 8) - 1);
  static KVC_INLINE Ints part(Ints words, int k) { return kBits == 8 ? words : words >> kBits * k & kMask; }
  // The same where it stands, one instruction less: times 2^shift(k).
  static constexpr int shift(int k) { return kDotsAreWide ? kBits % 8 * k : 0; }
  static KVC_INLINE Ints part_in_place(Ints words, int k) {
    if constexpr (kBits == 8 || !kDotsAreWide) return part(words, k);
    return words & static_cast<int32_t>(static_cast<uint32_t>(kMask) << kBits * k);
  }
  static constexpr int32_t middle(CodeKind kind) { return kind == CodeKind::centred ? (1 << (kBits - 1)) - 1 : 0; }
};

// A query as the words of codes meet it that follow one another, token after token: so many vectors until it repeats.
template <int kBits>
struct PackedQuery {
  static constexpr int kParts = Whole<kBits>::kParts, kCodes = 32 / kBits;
  static constexpr int64_t kMostWords = TokenWords<kBits>::kMostWords;
  Ints digits[kMostWords][kDigits][kParts];     // by vector: of a word's codes k, kParts + k, ... in its bytes
  Ints begin[kMostWords][kDigits];              // what the codes' middle takes off
  float totals[kMostWords], units[kMostWords];  // of a group's entries
  int64_t period;

  PackedQuery(const Codes& x, const float* q) : period(x.n_words / std::gcd(x.n_words, kLanes)) {
    const int32_t middle = Whole<kBits>::middle(x.kind);
    float inverses[kMostWords];
    for (int64_t g = 0; g < x.n_groups; ++g) {
      float total = 0;
      Ints largest = {};
      for (int64_t j = g * x.group_size; j < (g + 1) * x.group_size; ++j) {
        total += q[j];
        largest[0] = std::max(largest[0], std::bit_cast<int32_t>(q[j]) & 0x7fffffff);
      }
      const Units unit(largest);
      totals[g] = total, units[g] = unit.size[0], inverses[g] = unit.inverse[0];
    }
    float entries[kMaxHeadDim + kCodes] = {};
    std::copy(q, q + x.head_dim, entries);
    for (int64_t v = 0, word = 0; v < period; ++v) {
      std::memset(digits[v], 0, sizeof(digits[v]));
      std::memset(begin[v], 0, sizeof(begin[v]));
      float by_entry[kCodes][kLanes];  // entry e of each word
      Floats inverse;
      for (int64_t l = 0; l < kLanes; ++l, word = word + 1 == x.n_words ? 0 : word + 1) {
        inverse[l] = inverses[word * x.n_groups / x.n_words];
        for (int e = 0; e < kCodes; ++e) by_entry[e][l] = entries[word * kCodes + e];
      }
      for (int e = 0; e < kCodes; ++e) {
        const Ints d = digits_of(load<Floats>(by_entry[e]), inverse);
        for (int digit = 0; digit < kDigits; ++digit) {
          digits[v][digit][e % kParts] |= (d >> 8 * digit & 255) << 8 * (e / kParts);
          begin[v][digit] -= digit_of(d, digit) * middle;
        }
      }
    }
  }

  // The products of each word's codes with its part of the query, in units.
  KVC_INLINE Floats products(Ints codes, int64_t v) const {
    Dots<kBits> dots[kDigits] = {Dots<kBits>(begin[v][0]), Dots<kBits>(begin[v][1]), Dots<kBits>(begin[v][2])};
#pragma GCC unroll 4
    for (int k = 0; k < kParts; ++k) {
      const Ints code = Whole<kBits>::part(codes, k);
#pragma GCC unroll 3
      for (int d = 0; d < kDigits; ++d) dots[d].add(code, digits[v][d][k]);
    }
    const Ints sums[kDigits] = {dots[0].total(), dots[1].total(), dots[2].total()};
    if constexpr (kBits == 8) return joined_digits(sums);
    return floats_of((((sums[2] << 8) + sums[1]) << 8) + sums[0]);  // 16 x 3 x 2^23 < 2^31, 8 x 15 x 2^23 as well
  }
};

// Sums of n neighbours each, in place: of to 64 * n_left entries.
inline void sum_neighbours(float* x, int64_t n, int64_t n_left) {
  int64_t n_all = n * n_left;
  for (; n % 2 == 0; n /= 2, n_all /= 2) {
    for (int64_t at = 0; at < n_all; at += 2 * kLanes) {
      store(folded(load<Floats>(x + at), load<Floats>(x + at + kLanes)), x + at / 2);
    }
  }
  if (n == 1) return;
  for (int64_t i = 0; i < n_left; ++i) {
    float sum = 0;
    for (int64_t e = 0; e < n; ++e) sum += x[i * n + e];
    x[i] = sum;
  }
}

// Codes of tokens whose rows they are.
template <int kBits>
[[gnu::noinline]] void score_whole_channels(const Codes& x, const float* q, float* scores) {
  using Run = TokenWords<kBits>;
  const PackedQuery<kBits> query(x, q);
  Run run;
  constexpr int64_t kMost = Run::kTokens * Run::kMostWords;
  float sums[kMost], totals[kMost], units[kMost], scale[kMost], zero[kMost];
  for (int64_t t = 0; t < run.kTokens; ++t) {
    std::copy_n(query.totals, x.n_groups, totals + t * x.n_groups);
    std::copy_n(query.units, x.n_groups, units + t * x.n_groups);
  }
  for (int64_t first = 0; first < x.n_tokens; first += run.kTokens) {
    run.read(x, first);
    const int64_t n = std::min(run.kTokens, x.n_tokens - first);
    for (int64_t v = 0; v < query.period; ++v) {  // of each
      for (int64_t at = v * kLanes; at < n * x.n_words; at += query.period * kLanes) {
        __builtin_prefetch(run.words + at + kAhead / 4);
        store(query.products(words(run.words + at), v), sums + at);
      }
    }
    sum_neighbours(sums, x.n_words / x.n_groups, run.kTokens * x.n_groups);
    read_numbers(x.scale, first * x.n_groups, n * x.n_groups, scale);
    if (x.zero.data) read_numbers(x.zero, first * x.n_groups, n * x.n_groups, zero);
    for (int64_t s = 0; s < n * x.n_groups; s += kLanes) {
      Floats sum = load<Floats>(sums + s) * (load<Floats>(scale + s) * load<Floats>(units + s));
      if (x.zero.data) sum += load<Floats>(totals + s) * load<Floats>(zero + s);
      store(sum, sums + s);
    }
    sum_neighbours(sums, x.n_groups, run.kTokens);
    for (int64_t t = 0; t < n; t += kLanes) {
      add_lanes(load<Floats>(sums + t), std::min(kLanes, n - t), scores + first + t);
    }
  }
}

// Rows of words of codes, or of factors, four of which are one step's.
struct RowsAt {
  const int32_t* words;
  int64_t stride;
};

#ifdef KVC_HALVES
// The digits of the factors of some steps, as the rows' codes are interleaved: by half of the lanes and step, of the
// words of each four that have a group in common.
template <int kSpread>
struct StepDigits {
  static constexpr int64_t kSets = 4 / kSpread, kStride = kSets * kDigits;  // of vectors, from step to step
  Ints::Half of[2][kShortSteps][kSets][kDigits];

  KVC_INLINE void read(RowsAt factors, Ints groups, int64_t n_steps) {
    for (int64_t step = 0; step < n_steps; ++step) {
      Ints by[4];
#pragma GCC unroll 4
      for (int r = 0; r < 4; ++r) by[r] = picked(words(factors.words + (4 * step + r) * factors.stride), groups);
#pragma GCC unroll 4
      for (int set = 0; set < kSets; ++set) {
        const Ints digits = interleaved(by[0], by[1], by[2], by[3], set * kSpread);
        const Ints each[kDigits] = {quarter_of<0>(digits), quarter_of<1>(digits), quarter_of<2>(digits)};
        for (int d = 0; d < kDigits; ++d) of[0][step][set][d] = each[d].low, of[1][step][set][d] = each[d].high;
      }
    }
  }
};
#endif

// Sums over rows of one vector of their codes: sums[i][k] are those of code k, where it stands, of each byte of words
// i, 4 + i, 8 + i, 12 + i.
template <int kBits>
struct RowSums {
  static constexpr int kParts = Whole<kBits>::kParts;
  Ints sums[4][kParts][kDigits];

  static int64_t spread(int64_t group_words) { return group_words % 4 == 0 ? 4 : group_words % 2 == 0 ? 2 : 1; }
  static int64_t word(int i, int64_t lane) { return lane / 4 * 4 + i; }
  static int64_t byte(int64_t lane) { return lane % 4; }

  // Codes times factors, which are picked by their group, of 4 n_steps rows. spread: so many words of each four, 1, 2
  // or 4, have the same group.
  KVC_INLINE void add(RowsAt codes, RowsAt factors, Ints groups, int64_t spread, int64_t n_steps, int64_t ahead) {
    if (spread == 4) return add_all<4>(codes, factors, groups, n_steps, ahead);
    if (spread == 2) return add_all<2>(codes, factors, groups, n_steps, ahead);
    add_all<1>(codes, factors, groups, n_steps, ahead);
  }
#ifdef KVC_HALVES
  // Some steps at a time: their factors' digits are interleaved once, and dots are sums of 16 bits until the last step.
  template <int kSpread>
  KVC_INLINE void add_all(RowsAt codes, RowsAt factors, Ints groups, int64_t n_steps, int64_t ahead) {
    StepDigits<kSpread> digits;
    std::memset(sums, 0, sizeof(sums));
    for (int64_t step = 0; step < n_steps; step += kShortSteps) {
      const int64_t n = std::min(kShortSteps, n_steps - step);
      digits.read(factors, groups, n);
      for (int64_t r = 0; r < 4 * n; ++r) __builtin_prefetch(codes.words + r * codes.stride + ahead);
      for (int half = 0; half < 2; ++half) {
        const RowsAt rows{codes.words + half * kLanes / 2, codes.stride};
        const auto of_word = [&](int i) { return digits.of[half][0][i / kSpread]; };
        if constexpr (kParts == 4) {
          add_half<0, 1>(rows, of_word(0), of_word(0), digits.kStride, n, half);
          add_half<1, 1>(rows, of_word(1), of_word(1), digits.kStride, n, half);
          add_half<2, 1>(rows, of_word(2), of_word(2), digits.kStride, n, half);
          add_half<3, 1>(rows, of_word(3), of_word(3), digits.kStride, n, half);
        } else {
          add_half<0, 2>(rows, of_word(0), of_word(1), digits.kStride, n, half);
          add_half<2, 2>(rows, of_word(2), of_word(3), digits.kStride, n, half);
        }
      }
      codes.words += 4 * n * codes.stride, factors.words += 4 * n * factors.stride;
    }
  }

  // Half of the lanes, for words kFirst, ... of each four. by, next: digits of the first word and of the second.
  template <int kFirst, int kN>
  [[gnu::noinline]] void add_half(RowsAt codes, const Ints::Half* by, const Ints::Half* next, int64_t stride,
                                  int64_t n_steps, int half) {
    constexpr int kShortParts = std::max(kParts, 2), kShift = 8 / kShortParts;
    constexpr int32_t kPart = 0x01010101 * ((1 << kShift) - 1);
    Ints::Half shorts[kN][kShortParts][kDigits] = {};
    for (int64_t step = 0; step < n_steps; ++step, by += stride, next += stride) {
      const auto row = [&](int r) __attribute__((always_inline)) {
        return load<Ints::Half>(codes.words + r * codes.stride);
      };
#pragma GCC unroll 2
      for (int i = 0; i < kN; ++i) {
        const Ints::Half bytes = interleaved_half(row(0), row(1), row(2), row(3), kFirst + i);
#pragma GCC unroll 4
        for (int k = 0; k < kShortParts; ++k) {
          const Ints::Half code = bytes >> kShift * k & kPart;
#pragma GCC unroll 3
          for (int d = 0; d < kDigits; ++d) add_short_dots(shorts[i][k][d], code, (i == 0 ? by : next)[d]);
        }
      }
      codes.words += 4 * codes.stride;
    }
#pragma GCC unroll 2
    for (int i = 0; i < kN; ++i) {
#pragma GCC unroll 4
      for (int k = 0; k < kShortParts; ++k) {
#pragma GCC unroll 3
        for (int d = 0; d < kDigits; ++d) {
          auto& sum = sums[kFirst + i][kBits == 8 ? 0 : k][d];
          (half == 0 ? sum.low : sum.high) += sum_of_shorts(shorts[i][k][d], kBits == 8 && k == 1 ? 16 : 1);
        }
      }
    }
  }
#else
  template <int kSpread>
  KVC_INLINE void add_all(RowsAt codes, RowsAt factors, Ints groups, int64_t n_steps, int64_t ahead) {
    constexpr int kAtOnce = std::clamp(kMostSums / (kParts * kDigits), 1, 4);
    add_from<kSpread, 0, kAtOnce>(codes, factors, groups, n_steps, ahead);
    if constexpr (kAtOnce < 2) add_from<kSpread, 1, kAtOnce>(codes, factors, groups, n_steps, 0);
    if constexpr (kAtOnce < 4) add_from<kSpread, 2, kAtOnce>(codes, factors, groups, n_steps, 0);
    if constexpr (kAtOnce < 2) add_from<kSpread, 3, kAtOnce>(codes, factors, groups, n_steps, 0);
  }

  // The same for words kFirst, ... of each four, of which there are registers for kN.
  template <int kSpread, int kFirst, int kN>
  [[gnu::noinline]] void add_from(RowsAt codes, RowsAt factors, Ints groups, int64_t n_steps, int64_t ahead) {
    Ints part[kN][kParts][kDigits] = {};
    for (int64_t step = 0; step < n_steps; ++step) {
      Ints by[4];
#pragma GCC unroll 4
      for (int r = 0; r < 4; ++r) by[r] = picked(words(factors.words + r * factors.stride), groups);
#pragma GCC unroll 4
      for (int r = 0; r < 4; ++r) __builtin_prefetch(codes.words + r * codes.stride + ahead);
#pragma GCC unroll 4
      for (int i = 0; i < kN; ++i) {
        const int at = kFirst + i, from = at / kSpread * kSpread;
        const Ints bytes =
            interleaved(words(codes.words), words(codes.words + codes.stride), words(codes.words + 2 * codes.stride),
                        words(codes.words + 3 * codes.stride), at);
        const Ints digits = interleaved(by[0], by[1], by[2], by[3], from);
#pragma GCC unroll 4
        for (int k = 0; k < kParts; ++k) {
          const Ints code = Whole<kBits>::part_in_place(bytes, k);
          add_dots(part[i][k][0], code, quarter_of<0>(digits));
          add_dots(part[i][k][1], code, quarter_of<1>(digits));
          add_dots(part[i][k][2], code, quarter_of<2>(digits));
        }
      }
      codes.words += 4 * codes.stride, factors.words += 4 * factors.stride;
    }
#pragma GCC unroll 4
    for (int i = 0; i < kN; ++i) {
#pragma GCC unroll 4
      for (int k = 0; k < kParts; ++k) {
#pragma GCC unroll 3
        for (int d = 0; d < kDigits; ++d) sums[kFirst + i][k][d] = part[i][k][d];
      }
    }
  }
#endif

  // In units of factors
  KVC_INLINE Floats sum(int i, int k) const {
    return joined_digits(sums[i][k]) * (1.f / (1 << Whole<kBits>::shift(k)));
  }
};

// Factors of some tokens: their weights times their scales in digits, and what their zeros add to each group.
template <int kBits>
struct TokenFactors {
  static constexpr int64_t kTokens = TokenWords<kBits>::kTokens, kMostWords = TokenWords<kBits>::kMostWords;
  int32_t digits[kTokens * kMostWords + kLanes];
  float units[kMostWords + kLanes];  // of each group
  float scale[kTokens * kMostWords], zero[kTokens * kMostWords];

  // zeros += by vector, until the groups repeat. weights: kTokens of them, zeros behind the last token.
  KVC_INLINE void make(const Codes& x, int64_t first, const float* weights, int64_t period, Floats* zeros) {
    period == 1 ? make_all<true>(x, first, weights, 1, zeros) : make_all<false>(x, first, weights, period, zeros);
  }
  // kWhole: a vector holds whole tokens' groups.
  template <bool kWhole>
  KVC_INLINE void make_all(const Codes& x, int64_t first, const float* weights, int64_t period, Floats* zeros) {
    const int64_t n_scales = kTokens * x.n_groups, at = first * x.n_groups;
    const Ints over = lanes_over(x.n_groups);
    read_numbers(x.scale, at, n_scales, scale);
    if (x.zero.data) read_numbers(x.zero, at, n_scales, zero);
    Ints largest[kWhole ? 1 : kMostWords];
    std::fill_n(largest, period, Ints{});
    for (int64_t s = 0, v = 0; s < n_scales; s += kLanes, v = kWhole || v + 1 == period ? 0 : v + 1) {
      Floats weight;
      if constexpr (kWhole) {
        weight = pick(load<Floats>(weights + s / x.n_groups), over);
      } else {
        for (int64_t l = 0; l < kLanes; ++l) weight[l] = weights[(s + l) / x.n_groups];
      }
      const Floats factor = weight * load<Floats>(scale + s);
      store(factor, digits + s);
      largest[v] = larger(largest[v], size_bits(factor));
      if (x.zero.data) zeros[v] += weight * load<Floats>(zero + s);
    }
    share_by_group(x.n_groups, period, largest);
    Floats inverses[kWhole ? 1 : kMostWords];
    for (int64_t v = 0; v < period; ++v) {
      const Units unit(largest[v]);
      inverses[v] = unit.inverse;
      if (v * kLanes < x.n_groups) store(unit.size, units + v * kLanes);
    }
    for (int64_t s = 0, v = 0; s < n_scales; s += kLanes, v = kWhole || v + 1 == period ? 0 : v + 1) {
      store(digits_of(load<Floats>(digits + s), inverses[v]), digits + s);
    }
  }

  KVC_INLINE Floats unit(int64_t n_groups, Ints groups) const { return (Floats)of_groups(units, n_groups, groups); }

  // What centred codes' middle adds: of each group, those of a vector's tokens apart, the sum of its digits times the
  // middle.
  struct Middles {
    int32_t of_digit[kDigits][kMostWords + kLanes] = {};

    KVC_INLINE Middles(const TokenFactors& factors, int64_t n_factors, int64_t n_groups, int32_t middle) {
      if (kLanes % n_groups != 0) {
        for (int64_t s = 0, g = 0; s < n_factors; ++s, g = g + 1 == n_groups ? 0 : g + 1) {
          for (int d = 0; d < kDigits; ++d) of_digit[d][g] += (factors.digits[s] << (24 - 8 * d) >> 24) * middle;
        }
        return;
      }
      const Ints lanes = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
      for (int d = 0; d < kDigits; ++d) {
        Ints sum = {};
        for (int64_t s = 0; s < n_factors; s += kLanes) sum += digit_of(words(factors.digits + s), d);
        for (int64_t n = n_groups; n < kLanes; n *= 2) sum += picked(sum, lanes + static_cast<int32_t>(n));
        store(sum * middle, of_digit[d]);
      }
    }
  };

  static KVC_INLINE Ints of_groups(const void* x, int64_t n_groups, Ints groups) {
    if (n_groups <= kLanes) return picked(words(x), groups);
    Ints all;
    for (int64_t l = 0; l < kLanes; ++l) std::memcpy(&all[l], static_cast<const int32_t*>(x) + groups[l], 4);
    return all;
  }

  // The largest of a group's lanes for each of them, which are every n_groups-th.
  static KVC_INLINE void share_by_group(int64_t n_groups, int64_t period, Ints* largest) {
    if (kLanes % n_groups == 0) {
      const Ints lanes = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
      for (int64_t n = n_groups; n < kLanes; n *= 2) {
        largest[0] = larger(largest[0], picked(largest[0], lanes + static_cast<int32_t>(n)));
      }
      return;
    }
    int32_t of_groups[kMostWords] = {};
    for (int64_t s = 0; s < period * kLanes; ++s) {
      of_groups[s % n_groups] = std::max(of_groups[s % n_groups], largest[s / kLanes][s % kLanes]);
    }
    for (int64_t s = 0; s < period * kLanes; ++s) largest[s / kLanes][s % kLanes] = of_groups[s % n_groups];
  }
};

// Codes of tokens whose rows they are: the sum of their weighted values.
template <int kBits>
[[gnu::noinline]] void accumulate_whole_channels(const Codes& x, const float* weights, float* out) {
  constexpr int kParts = Whole<kBits>::kParts;
  constexpr int64_t kCodes = 32 / kBits, kMostVectors = kMaxHeadDim / (kLanes * kCodes);
  const Lanes<kBits> lanes(x);
  const int32_t middle = Whole<kBits>::middle(x.kind);
  const int64_t stride = lanes.tokens * x.n_words, scale_stride = lanes.tokens * x.n_groups;
  Place places[kMostVectors];
  Floats sums[kMostVectors][4][kParts];
  Ints groups[kMostVectors][4];  // of sums, those of a vector's tokens one after the other
  const int64_t n_groups = lanes.tokens * x.n_groups;
  for (int64_t v = 0; v < lanes.vectors; ++v) {
    places[v] = lanes.place(x, v);
    std::memset(sums[v], 0, sizeof(sums[v]));
    for (int i = 0; i < 4; ++i) {
      for (int64_t l = 0; l < kLanes; ++l) {
        groups[v][i][l] = static_cast<int32_t>(places[v].group) + places[v].groups[RowSums<kBits>::word(i, l)];
      }
    }
  }
  const int64_t period = x.n_groups / std::gcd(x.n_groups, kLanes);
  Floats zeros[TokenWords<kBits>::kMostWords];
  std::fill_n(zeros, period, Floats{});
  TokenWords<kBits> run;
  TokenFactors<kBits> factors;
  for (int64_t first = 0; first < x.n_tokens; first += run.kTokens) {
    run.read(x, first);
    const int64_t n = std::min(run.kTokens, x.n_tokens - first);
    float w[run.kTokens + kLanes] = {};
    std::copy(weights + first, weights + first + n, w);
    factors.make(x, first, w, period, zeros);
    typename TokenFactors<kBits>::Middles middles(factors, run.kTokens * x.n_groups, n_groups, middle);
    const int64_t n_steps = (n + 4 * lanes.tokens - 1) / (4 * lanes.tokens);
    for (int64_t v = 0; v < lanes.vectors; ++v) {
      const RowsAt by{factors.digits + places[v].group, scale_stride};
      RowSums<kBits> part;
      part.add({run.words + v * kLanes, stride}, by, places[v].groups, part.spread(x.n_words / x.n_groups), n_steps,
               kAhead / 4);
      for (int i = 0; i < 4; ++i) {
        for (int d = 0; d < kDigits && middle; ++d) {
          const Ints off = factors.of_groups(middles.of_digit[d], n_groups, groups[v][i]);
          for (int k = 0; k < kParts; ++k) part.sums[i][k][d] -= off << Whole<kBits>::shift(k);
        }
        const Floats unit = factors.unit(n_groups, groups[v][i]);
        for (int k = 0; k < kParts; ++k) sums[v][i][k] += part.sum(i, k) * unit;
      }
    }
  }
  for (int64_t v = 0; v < lanes.vectors; ++v) {
    for (int i = 0; i < 4; ++i) {
      for (int k = 0; k < kParts; ++k) {
        for (int64_t l = 0; l < kLanes; ++l) {
          const int64_t j = places[v].channels[RowSums<kBits>::word(i, l)] + RowSums<kBits>::byte(l) * kParts + k;
          if (j < x.head_dim) out[j] += sums[v][i][k][l];
        }
      }
    }
  }
  float of_groups[TokenWords<kBits>::kMostWords] = {};
  for (int64_t s = 0, g = 0; s < period * kLanes; ++s, g = g + 1 == x.n_groups ? 0 : g + 1) {
    of_groups[g] += zeros[s / kLanes][s % kLanes];
  }
  for (int64_t g = 0; g < x.n_groups; ++g) {
    for (int64_t j = g * x.group_size; j < (g + 1) * x.group_size; ++j) out[j] += of_groups[g];
  }
}

// Some groups of some channels: the query's entries times their scales in digits, and what their zeros add to each
// group.
struct ChannelFactors {
  static constexpr int64_t kChannels = 256;  // the sums of so many have 32 bits
  int32_t digits[kChannels * kLanes];
  Floats zeros, units;

  KVC_INLINE void make(const Codes& x, const float* q, int64_t first, int64_t n, int64_t group) {
    const int64_t width = std::min(kLanes, x.n_groups - group);
    const Ints there = first_lanes(width);
    Ints largest = {};
    zeros = Floats{};
    for (int64_t j = 0; j < n; ++j) {
      const int64_t at = group * x.head_dim + (first + j) * width;
      const Floats factor = (Floats)((Ints)(numbers_at(x.scale, at) * q[first + j]) & there);
      largest = larger(largest, size_bits(factor));
      store(factor, digits + j * kLanes);
      if (x.zero.data) zeros += numbers_at(x.zero, at) * q[first + j];
    }
    const Units unit(largest);
    units = unit.size;
    for (int64_t j = 0; j < n; ++j) {
      store(digits_of(load<Floats>(digits + j * kLanes), unit.inverse), digits + j * kLanes);
    }
    for (int64_t j = n; j % 4 != 0; ++j) store(Ints{}, digits + j * kLanes);
  }
};

// One tile of some channels: where it is narrower than a vector or its channels are no four, a copy.
struct ChannelTile {
  int32_t copied[ChannelFactors::kChannels * kLanes];

  KVC_INLINE RowsAt rows(const Codes& x, int64_t first, int64_t n, int64_t word) {
    const int64_t n_words = std::min(kLanes, x.n_words - word);
    const int32_t* from = x.words + word * x.head_dim + first * n_words;
    if (n_words == kLanes && n % 4 == 0) return {from, kLanes};
    std::fill_n(copied, (n + 3) / 4 * 4 * kLanes, 0);
    for (int64_t j = 0; j < n; ++j) std::copy_n(from + j * n_words, n_words, copied + j * kLanes);
    return {copied, kLanes};
  }
};

// Neighbouring codes come together: of kParts vectors whose lanes are bytes, those of four codes.
template <int kParts>
KVC_INLINE void by_code(Floats (&x)[kParts]) {
  if constexpr (kParts == 2) {
    const Floats first = x[0];
    x[0] = low_pairs(first, x[1]), x[1] = high_pairs(first, x[1]);
  } else if constexpr (kParts == 4) {
    const Floats even[2] = {low_pairs(x[0], x[2]), high_pairs(x[0], x[2])};
    const Floats odd[2] = {low_pairs(x[1], x[3]), high_pairs(x[1], x[3])};
    for (int h = 0; h < 2; ++h) x[2 * h] = low_pairs(even[h], odd[h]), x[2 * h + 1] = high_pairs(even[h], odd[h]);
  }
}

// scores of one vector's tokens += its sums and its words' zeros
template <int kBits>
KVC_INLINE void add_scores(const RowSums<kBits>& part, Floats units, Floats zeros, int64_t n, float* scores) {
  constexpr int kParts = Whole<kBits>::kParts, kCodes = 32 / kBits;
  const Ints words_of = lanes_over(4) * 4;
  float sums[kLanes * kCodes];
  for (int i = 0; i < 4; ++i) {
    const Floats unit = pick(units, words_of + i), zero = pick(zeros, words_of + i);
    Floats words[kParts];
    for (int k = 0; k < kParts; ++k) words[k] = part.sum(i, k) * unit + zero;
    by_code(words);
    for (int k = 0; k < kParts; ++k) {
      for (int64_t four = 0; four < 4; ++four) {
        std::memcpy(sums + part.word(i, 4 * four) * kCodes + 4 * k,
                    reinterpret_cast<const float*>(&words[k]) + 4 * four, 16);
      }
    }
  }
  for (int64_t t = 0; t < n; ++t) scores[t] += sums[t];
}

// Codes of channels whose rows they are. Queries share what the cache holds of some groups.
template <int kBits>
[[gnu::noinline]] void score_whole_tokens(const Codes& x, ConstRows q, Rows scores) {
  constexpr int64_t kCodes = 32 / kBits, kTile = kLanes * kCodes, kChannels = ChannelFactors::kChannels;
  const int64_t group_words = (x.group_size + kCodes - 1) / kCodes;  // a group that ends within a word is the only one
  ChannelFactors factors;
  ChannelTile tile;
  for (int64_t group = 0; group < x.n_groups; group += kLanes) {
    const int64_t n_groups = std::min(kLanes, x.n_groups - group);
    const int64_t begin = group * group_words, end = std::min(x.n_words, begin + n_groups * group_words);
    for (int64_t i = 0; i < q.n; ++i) {
      float* out = scores.data + i * scores.stride;
      for (int64_t first = 0; first < x.head_dim; first += kChannels) {
        const int64_t n = std::min(kChannels, x.head_dim - first);
        factors.make(x, q.data + i * q.stride, first, n, group);
        for (int64_t word = begin; word < end; word += kLanes) {
          const Ints last = Ints{} + static_cast<int32_t>(n_groups - 1);
          const Ints groups = smaller(lanes_over(group_words, word - begin), last);
          RowSums<kBits> part;
          part.add(tile.rows(x, first, n, word), {factors.digits, kLanes}, groups, part.spread(group_words),
                   (n + 3) / 4, kAhead / 4);
          const int64_t n_tokens = std::min({kTile, x.n_tokens - word * kCodes, (end - word) * kCodes});
          add_scores(part, pick(factors.units, groups), pick(factors.zeros, groups), n_tokens, out + word * kCodes);
        }
      }
    }
  }
}

}  // namespace kvc::kernels::KVC_MACHINE
