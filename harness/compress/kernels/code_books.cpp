#include "kernels/code_books.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "kernels/lanes.h"
#include "kvc/check.h"

namespace kvc::kernels {
namespace {

constexpr int64_t kEight = 8;
using EightFloats = Sixteen<float>::Half;
using EightInts = Sixteen<int32_t>::Half;
using EightBytes = Sixteen<uint8_t>::Half;

template <int kBits>
KVC_INLINE EightInts codes_at(const char* bytes, int64_t eight) {
  int32_t word = 0;
  std::memcpy(&word, bytes + kBits * eight, kBits);
  const EightInts shifts = {0, kBits, 2 * kBits, 3 * kBits, 4 * kBits, 5 * kBits, 6 * kBits, 7 * kBits};
  return ((EightInts{} + word) >> shifts) & ((1 << kBits) - 1);
}

KVC_INLINE EightFloats pick(EightFloats from, EightInts at) {
#ifdef __clang__
  EightFloats picked;
  for (int i = 0; i < kEight; ++i) picked[i] = from[at[i] & 7];
  return picked;
#else
  return __builtin_shuffle(from, at);
#endif
}

// The levels of a book, or what they become in a group.
template <int kBits>
struct Levels {
  EightFloats low = {}, high = {};  // high: with four bits

  KVC_INLINE explicit Levels(const float* levels) {
    std::memcpy(&low, levels, sizeof(float) * std::min(1 << kBits, 8));
    if constexpr (kBits == 4) std::memcpy(&high, levels + 8, sizeof(high));
  }
  KVC_INLINE void scale(float by, float zero) {
    low = low * by + zero;
    high = high * by + zero;
  }
  KVC_INLINE EightFloats operator[](EightInts codes) const {
    const auto picked = pick(low, codes);
    if constexpr (kBits < 4) return picked;
    return codes > 7 ? pick(high, codes) : picked;
  }
};

KVC_INLINE int32_t code_at(const int32_t* words, int64_t j, int64_t bits) {
  int32_t code = 0;
  for (int64_t bit = j * bits, k = 0; k < bits; ++bit, ++k) {
    code |= static_cast<int32_t>(static_cast<uint32_t>(words[bit / 32]) >> (bit % 32) & 1u) << k;
  }
  return code;
}

// One row of n codes in groups.
template <int kBits>
KVC_INLINE void groups_of(const Levels<kBits>& book, const float* levels, const int32_t* words, int64_t n,
                          const float* scale, const float* zero, int64_t group_size, float* out) {
  const bool whole = group_size % kEight == 0;
  for (int64_t group = 0; group * group_size < n; ++group) {
    const float by = scale[group], from = zero ? zero[group] : 0.f;
    const int64_t end = std::min(n, (group + 1) * group_size);
    int64_t j = group * group_size;
    if (whole) {
      auto scaled = book;
      scaled.scale(by, from);
      for (; j + kEight <= end; j += kEight) {
        store(scaled[codes_at<kBits>(reinterpret_cast<const char*>(words), j / kEight)], out + j);
      }
    }
    for (; j < end; ++j) out[j] = levels[code_at(words, j, kBits)] * by + from;
  }
}

// One row of n codes, each with its channel's scale and zero.
template <int kBits>
KVC_INLINE void channels_of(const Levels<kBits>& book, const float* levels, const int32_t* words, int64_t n,
                            const float* scale, const float* zero, float* out) {
  int64_t j = 0;
  for (; j + kEight <= n; j += kEight) {
    const auto picked = book[codes_at<kBits>(reinterpret_cast<const char*>(words), j / kEight)];
    store(picked * load<EightFloats>(scale + j) + load<EightFloats>(zero + j), out + j);
  }
  for (; j < n; ++j) out[j] = levels[code_at(words, j, kBits)] * scale[j] + zero[j];
}

template <int kBits>
KVC_INLINE void parts_of(const BookRows& rows, int64_t n_parts, int64_t stride, const float* scale, const float* zero,
                         bool by_channel, float* out) {
  const Levels<kBits> book(rows.levels);
  const int64_t n = rows.len / n_parts;
  for (int64_t row = 0; row < rows.n_rows; ++row, out += n) {
    const int32_t* words = rows.words + row * rows.n_words;
    for (int64_t part = 0; part < n_parts; ++part, words += n * kBits / 32) {
      float* to = out + part * stride;
      if (by_channel) {
        channels_of<kBits>(book, rows.levels, words, n, scale + part * n, zero + part * n, to);
      } else {
        groups_of<kBits>(book, rows.levels, words, n, scale + row, zero + row, n, to);
      }
    }
  }
}

// f<bits>() for this many.
template <class F>
KVC_INLINE void by_bits(int64_t bits, F f) {
  switch (bits) {
    case 1:
      return f.template operator()<1>();
    case 2:
      return f.template operator()<2>();
    case 3:
      return f.template operator()<3>();
    case 4:
      return f.template operator()<4>();
    default:
      throw Error(concat("a code book of ", bits, " bits, allowed: 1 to 4"));
  }
}

KVC_INLINE EightFloats e4m3_values(EightInts codes) {
  const EightInts size = codes & 0x7f;
  const EightFloats magnitude = (EightFloats)(size << 20) * 0x1p120f;  // exponent and fraction where a float has them
  return (EightFloats)((EightInts)(size == 0x7f ? EightFloats{} + NAN : magnitude) | (codes & 0x80) << 24);
}

// An infinity at 0x7c, no numbers above.
KVC_INLINE EightFloats e5m2_values(EightInts codes) {
  const EightInts size = codes & 0x7f;
  const EightFloats magnitude = (EightFloats)(size << 21) * 0x1p112f;
  const EightFloats beyond =
      (EightFloats)(EightInts{} + (size == 0x7c ? EightInts{} + 0x7f800000 : EightInts{} + 0x7fc00000));
  return (EightFloats)((EightInts)(size >= 0x7c ? beyond : magnitude) | (codes & 0x80) << 24);
}

// values(codes) of each byte
template <class Values>
KVC_INLINE void decode_bytes(const uint8_t* codes, int64_t n, float* out, Values values) {
  int64_t i = 0;
  for (; i + kEight <= n; i += kEight) {
    store(values(__builtin_convertvector(load<EightBytes>(codes + i), EightInts)), out + i);
  }
  for (; i < n; ++i) out[i] = values(EightInts{} + codes[i])[0];
}

struct E4m3 {
  static constexpr int kFractionBits = 3, kBias = 7;
  static constexpr float kLargest = 448.f, kLeastNormal = 0x1p-6f, kStep = 0x1.8p14f;
};
struct E5m2 {
  static constexpr int kFractionBits = 2, kBias = 15;
  static constexpr float kLargest = 57344.f, kLeastNormal = 0x1p-14f, kStep = 0x1.8p7f;
};

// Without branches, which vectorizes. Adding the type's kStep, 1.5 * 2^23 times the smallest number, puts that at a
// float's last bit, and the hardware rounds. Others are rounded half to even at the last bit of the fraction.
template <class Type>
KVC_INLINE uint8_t float8_code(float x) {
  constexpr int kShift = 23 - Type::kFractionBits;
  constexpr uint32_t kBias = static_cast<uint32_t>(127 - Type::kBias) << Type::kFractionBits;
  const uint32_t all = std::bit_cast<uint32_t>(x), sign = all >> 24 & 0x80u;
  const float magnitude = std::bit_cast<float>(all & 0x7fffffffu);
  const float size = magnitude < Type::kLargest ? magnitude : Type::kLargest;
  const uint32_t small = std::bit_cast<uint32_t>(size + Type::kStep) - std::bit_cast<uint32_t>(Type::kStep);
  const uint32_t bits = std::bit_cast<uint32_t>(size);
  const uint32_t normal = ((bits + ((1u << (kShift - 1)) - 1) + (bits >> kShift & 1u)) >> kShift) - kBias;
  return static_cast<uint8_t>(sign | (size < Type::kLeastNormal ? small : normal));
}

}  // namespace

KVC_CLONES void to_e4m3(const float* x, int64_t n, float scale, uint8_t* codes) {
  for (int64_t i = 0; i < n; ++i) codes[i] = float8_code<E4m3>(x[i] / scale);
}

KVC_CLONES void to_e5m2(const float* x, int64_t n, float scale, uint8_t* codes) {
  for (int64_t i = 0; i < n; ++i) codes[i] = float8_code<E5m2>(x[i] / scale);
}

KVC_CLONES float largest_magnitude(const float* x, int64_t n) {
  EightFloats largest = {}, none = {};
  int64_t i = 0;
  const auto magnitude = [](EightFloats v) __attribute__((always_inline)) {
    return (EightFloats)((EightInts)v & 0x7fffffff);
  };
  for (; i + kEight <= n; i += kEight) {
    const EightFloats v = magnitude(load<EightFloats>(x + i));
    largest = v > largest ? v : largest;
    none += v - v;
  }
  float all = 0, nan = 0;
  for (int64_t l = 0; l < kEight; ++l) all = std::max(all, largest[l]), nan += none[l];
  for (; i < n; ++i) all = std::max(all, std::fabs(x[i])), nan += x[i] - x[i];
  return all + nan;
}

KVC_CLONES void decode_groups(const BookRows& rows, const float* scale, const float* zero, int64_t group_size,
                              float* out) {
  const int64_t n_groups = (rows.len + group_size - 1) / group_size;
  by_bits(
      rows.bits, [&]<int kBits>() __attribute__((always_inline)) {
        const Levels<kBits> book(rows.levels);
        for (int64_t row = 0; row < rows.n_rows; ++row) {
          groups_of<kBits>(book, rows.levels, rows.words + row * rows.n_words, rows.len, scale + row * n_groups,
                           zero ? zero + row * n_groups : nullptr, group_size, out + row * rows.len);
        }
      });
}

KVC_CLONES void decode_parts(const BookRows& rows, int64_t n_parts, int64_t stride, const float* scale,
                             const float* zero, bool by_channel, float* out) {
  by_bits(
      rows.bits, [&]<int kBits>() __attribute__((always_inline)) {
        parts_of<kBits>(rows, n_parts, stride, scale, zero, by_channel, out);
      });
}

KVC_CLONES void from_e4m3(const uint8_t* codes, int64_t n, float* out) {
  decode_bytes(
      codes, n, out, [](EightInts x) __attribute__((always_inline)) { return e4m3_values(x); });
}

KVC_CLONES void from_e5m2(const uint8_t* codes, int64_t n, float* out) {
  decode_bytes(
      codes, n, out, [](EightInts x) __attribute__((always_inline)) { return e5m2_values(x); });
}

}  // namespace kvc::kernels
