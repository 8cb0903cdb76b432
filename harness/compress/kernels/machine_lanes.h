// What the loops over codes and factors are made of, for one kind of machine; each KVC_MACHINE is a file with flags of
// its own, since the compiler makes of generic code for permutations and halves some dozens of instructions.
#pragma once

#ifdef __AVX2__
#include <immintrin.h>
#endif

#include <algorithm>
#include <cmath>

#include "kernels/code_products.h"
#include "kernels/lanes.h"

namespace kvc::kernels::KVC_MACHINE {

#if defined(__AVX512F__)
constexpr int kMostSums = 24;        // vectors of sums that registers hold
constexpr bool kDotsAreWide = true;  // add_dots takes bytes of more than 7 bits at full speed
#elif defined(__AVX2__)
constexpr int kMostSums = 6;
constexpr bool kDotsAreWide = false;
#else
constexpr int kMostSums = 24;
constexpr bool kDotsAreWide = true;
#endif

// v[at[lane]] of each lane; of at the low four bits count
KVC_INLINE Floats pick(Floats v, Ints at) {
#if defined(__AVX512F__)
  return (Floats)_mm512_maskz_permutexvar_ps(0xffff, (__m512i)at, (__m512)v);
#elif defined(__AVX2__)
  __m256 half[2], picked[2];
  __m256i index[2];
  std::memcpy(half, &v, sizeof(v));
  std::memcpy(index, &at, sizeof(at));
  for (int i = 0; i < 2; ++i) {
    const __m256 low = _mm256_permutevar8x32_ps(half[0], index[i]), high = _mm256_permutevar8x32_ps(half[1], index[i]);
    picked[i] = _mm256_blendv_ps(low, high, _mm256_castsi256_ps(_mm256_slli_epi32(index[i], 28)));
  }
  return load<Floats>(picked);
#else
  Floats picked;
  for (int64_t l = 0; l < kLanes; ++l) picked[l] = v[at[l] & 15];
  return picked;
#endif
}

KVC_INLINE Ints picked(Ints v, Ints at) { return (Ints)pick((Floats)v, at); }

// The bytes of four rows, interleaved: lane 4 p + m is byte 16 p + 4 i + m of each.
KVC_INLINE Ints interleaved(Ints a, Ints b, Ints c, Ints d, int i) {
#if defined(__AVX512F__)
  const auto bytes = [&](Ints x, Ints y) __attribute__((always_inline)) {
    return i < 2 ? _mm512_unpacklo_epi8((__m512i)x, (__m512i)y) : _mm512_unpackhi_epi8((__m512i)x, (__m512i)y);
  };
  return (Ints)(i % 2 == 0 ? _mm512_unpacklo_epi16(bytes(a, b), bytes(c, d))
                           : _mm512_unpackhi_epi16(bytes(a, b), bytes(c, d)));
#elif defined(__AVX2__)
  const auto bytes = [&](__m256i x, __m256i y) __attribute__((always_inline)) {
    return i < 2 ? _mm256_unpacklo_epi8(x, y) : _mm256_unpackhi_epi8(x, y);
  };
  __m256i half[4][2], mixed[2];
  std::memcpy(half[0], &a, sizeof(a)), std::memcpy(half[1], &b, sizeof(b));
  std::memcpy(half[2], &c, sizeof(c)), std::memcpy(half[3], &d, sizeof(d));
  for (int s = 0; s < 2; ++s) {
    const __m256i ab = bytes(half[0][s], half[1][s]), cd = bytes(half[2][s], half[3][s]);
    mixed[s] = i % 2 == 0 ? _mm256_unpacklo_epi16(ab, cd) : _mm256_unpackhi_epi16(ab, cd);
  }
  return words(mixed);
#else
  uint8_t bytes[4][64], mixed[64];
  std::memcpy(bytes[0], &a, 64), std::memcpy(bytes[1], &b, 64);
  std::memcpy(bytes[2], &c, 64), std::memcpy(bytes[3], &d, 64);
  for (int at = 0; at < 16; ++at) {
    for (int r = 0; r < 4; ++r) mixed[4 * at + r] = bytes[r][at / 4 * 16 + 4 * i + at % 4];
  }
  return words(mixed);
#endif
}

// Of each four lanes, the one with this number in all.
template <int kAt>
KVC_INLINE Ints quarter_of(Ints v) {
#if defined(__AVX512F__)
  return (Ints)_mm512_maskz_shuffle_epi32(0xffff, (__m512i)v, (_MM_PERM_ENUM)(kAt * 0x55));
#else
  return __builtin_shufflevector(v, v, kAt, kAt, kAt, kAt, kAt + 4, kAt + 4, kAt + 4, kAt + 4, kAt + 8, kAt + 8,
                                 kAt + 8, kAt + 8, kAt + 12, kAt + 12, kAt + 12, kAt + 12);
#endif
}

// The lower two of each four lanes of both, in turns; the higher two
KVC_INLINE Floats low_pairs(Floats a, Floats b) {
  return __builtin_shufflevector(a, b, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29);
}
KVC_INLINE Floats high_pairs(Floats a, Floats b) {
  return __builtin_shufflevector(a, b, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
}

// sum += of each lane, its four bytes of codes, of kBits each, times its four signed bytes
template <int kBits>
KVC_INLINE void add_dots(Ints& sum, Ints codes, Ints signed_bytes) {
#if defined(__AVX512VNNI__)
  sum = (Ints)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)codes, (__m512i)signed_bytes);
#elif defined(__AVX2__)
  __m256i total[2], code[2], by[2];
  std::memcpy(total, &sum, sizeof(sum));
  std::memcpy(code, &codes, sizeof(codes));
  std::memcpy(by, &signed_bytes, sizeof(signed_bytes));
  const __m256i ones = _mm256_set1_epi16(1), low_bits = _mm256_set1_epi8(15);
  for (int s = 0; s < 2; ++s) {
    if constexpr (kBits < 8) {
      total[s] = _mm256_add_epi32(total[s], _mm256_madd_epi16(_mm256_maddubs_epi16(code[s], by[s]), ones));
    } else {  // pairs of products fit 16 bits for half a byte at a time
      const __m256i low = _mm256_and_si256(code[s], low_bits);
      const __m256i high = _mm256_and_si256(_mm256_srli_epi16(code[s], 4), low_bits);
      const __m256i sixteen = _mm256_set1_epi16(16);
      total[s] = _mm256_add_epi32(total[s], _mm256_madd_epi16(_mm256_maddubs_epi16(low, by[s]), ones));
      total[s] = _mm256_add_epi32(total[s], _mm256_madd_epi16(_mm256_maddubs_epi16(high, by[s]), sixteen));
    }
  }
  std::memcpy(&sum, total, sizeof(sum));
#else
  for (int b = 0; b < 4; ++b) sum += (codes >> 8 * b & 255) * (signed_bytes << (24 - 8 * b) >> 24);
#endif
}

// To whole numbers, halves to even; |x| < 2^31
KVC_INLINE Ints rounded(Floats x) {
#if defined(__AVX512F__)
  return (Ints)_mm512_maskz_cvtps_epi32(0xffff, (__m512)x);
#elif defined(__AVX2__)
  __m256 half[2];
  std::memcpy(half, &x, sizeof(x));
  const __m256i whole[2] = {_mm256_cvtps_epi32(half[0]), _mm256_cvtps_epi32(half[1])};
  return words(whole);
#else
  Ints whole;
  for (int64_t l = 0; l < kLanes; ++l) whole[l] = static_cast<int32_t>(std::nearbyint(x[l]));
  return whole;
#endif
}

// All bits of the first n lanes
KVC_INLINE Ints first_lanes(int64_t n) {
  const Ints lanes = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  return lanes < static_cast<int32_t>(n);
}

// 16 halves as floats
KVC_INLINE Floats halves(const uint16_t* x) {
#if defined(__AVX512F__)
  return (Floats)_mm512_maskz_cvtph_ps(0xffff, load<__m256i>(x));
#elif defined(__AVX2__)
  const __m256 both[2] = {_mm256_cvtph_ps(load<__m128i>(x)), _mm256_cvtph_ps(load<__m128i>(x + 8))};
  return load<Floats>(both);
#else
  return half_values(load<Shorts>(x));
#endif
}

// Entries [first, first + 16) of n; behind the last one zeros.
template <class T>
KVC_INLINE const T* whole(const T* x, int64_t first, int64_t n, T* padded) {
  if (first + kLanes <= n) return x + first;
  std::fill_n(padded, kLanes, T{});
  std::copy(x + first, x + n, padded);
  return padded;
}
KVC_INLINE Floats floats_at(const float* x, int64_t first, int64_t n) {
  float padded[kLanes];
  return load<Floats>(whole(x, first, n, padded));
}
// e4m3 in the high byte of each word -> fp32 times 2^-120; no NaN. Sign, exponent and fraction go to a float's places.
KVC_INLINE Floats tiny_e4m3_of(Ints words) { return (Floats)(words >> 4 & static_cast<int32_t>(0x87f00000)); }
KVC_INLINE Floats e4m3_of(Ints words) { return tiny_e4m3_of(words) * 0x1p120f; }

KVC_INLINE int64_t size_of(NumberType type) { return type == NumberType::f32 ? 4 : type == NumberType::f16 ? 2 : 1; }
KVC_INLINE Floats numbers_of(const void* x, NumberType type) {
  switch (type) {
    case NumberType::f32:
      return load<Floats>(x);
    case NumberType::f16:
      return halves(static_cast<const uint16_t*>(x));
    case NumberType::e8m0: {
      const Ints exponents = __builtin_convertvector(load<Bytes>(x), Ints);
      return (Floats)(exponents << 23 | ((exponents == 0) & 1 << 22));  // 2^-127 is no normal number
    }
    case NumberType::e4m3:
      return e4m3_of(__builtin_convertvector(load<Bytes>(x), Ints) << 24);
  }
  return Floats{};
}
KVC_INLINE NumberArray behind(NumberArray x, int64_t first) {
  if (!x.data || x.n == 1) return x;
  return {static_cast<const char*>(x.data) + first * size_of(x.type), x.type, x.n - first};
}
// Entries [first, first + 16), zeros behind the last.
KVC_INLINE Floats numbers_at(const NumberArray& x, int64_t first) {
  const int64_t size = size_of(x.type);
  const auto* bytes = static_cast<const char*>(x.data);
  if (first + kLanes <= x.n) return numbers_of(bytes + first * size, x.type);
  char padded[sizeof(Floats)] = {};
  std::memcpy(padded, bytes + (x.n == 1 ? 0 : first * size), static_cast<size_t>((x.n == 1 ? 1 : x.n - first) * size));
  const Floats sides = numbers_of(padded, x.type);
  return x.n == 1 ? Floats{} + sides[0] : sides;
}
// Entries [first, first + n) and on to whole vectors; zeros behind the last and where there are none at all.
KVC_INLINE void read_numbers(const NumberArray& x, int64_t first, int64_t n, float* out) {
  if (!x.data || x.n == 1) {
    const Floats all = x.data ? numbers_at(x, 0) : Floats{};
    for (int64_t i = 0; i < n; i += kLanes) store(all, out + i);
    return;
  }
  const auto read = [&]<NumberType kType>() __attribute__((always_inline)) {
    const auto* from = static_cast<const char*>(x.data) + first * size_of(kType);
    int64_t i = 0;
    for (; i < n && first + i + kLanes <= x.n; i += kLanes)
      store(numbers_of(from + i * size_of(kType), kType), out + i);
    for (; i < n; i += kLanes) store(first + i < x.n ? numbers_at(x, first + i) : Floats{}, out + i);
  };
  switch (x.type) {
    case NumberType::f32:
      return read.template operator()<NumberType::f32>();
    case NumberType::f16:
      return read.template operator()<NumberType::f16>();
    case NumberType::e8m0:
      return read.template operator()<NumberType::e8m0>();
    case NumberType::e4m3:
      return read.template operator()<NumberType::e4m3>();
  }
}
// Sums of neighbours: a's, then b's.
KVC_INLINE Floats folded(Floats a, Floats b) {
  return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30) +
         __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
}

// The same of n vectors, a power of two, until one is left: entry i is the sum of 16 / n lanes that stood together.
KVC_INLINE Floats folded(Floats* parts, int64_t n) {
  for (; n > 1; n /= 2) {
    for (int64_t p = 0; p < n / 2; ++p) parts[p] = folded(parts[2 * p], parts[2 * p + 1]);
  }
  return parts[0];
}

// out[0, n) += the first lanes
KVC_INLINE void add_lanes(Floats v, int64_t n, float* out) {
  if (n == kLanes) return store(load<Floats>(out) + v, out);
  for (int64_t l = 0; l < n; ++l) out[l] += v[l];
}

// (first + lane) / n of each lane: its row, where `n` entries of one stand together. One division: they are slow.
KVC_INLINE Ints lanes_over(int64_t n, int64_t first = 0) {
  Ints at;
  int64_t row = first / n, in_row = first - row * n;
  for (int64_t l = 0; l < kLanes; ++l) {
    at[l] = static_cast<int32_t>(row);
    if (++in_row == n) in_row = 0, ++row;
  }
  return at;
}

}  // namespace kvc::kernels::KVC_MACHINE
