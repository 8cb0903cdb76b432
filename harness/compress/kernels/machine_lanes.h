// What the loops over codes and factors are made of, for one kind of machine; each KVC_MACHINE is a file with flags of
// its own, since the compiler makes of generic code for permutations and halves some dozens of instructions.
#pragma once

#include <algorithm>
#include <cmath>

#include "kernels/code_products.h"
#include "kernels/machine_vectors.h"

namespace kvc::kernels::KVC_MACHINE {

#if defined(KVC_HALVES)
constexpr bool kDotsAreWide = false;  // whether codes of more than 7 bits are multiplied at full speed
#else
constexpr bool kDotsAreWide = true;
constexpr int kMostSums = 24;  // vectors of sums that registers hold
#endif

// v[at[lane]] of each lane; of at the low four bits count
KVC_INLINE Floats pick(Floats v, Ints at) {
#if defined(__AVX512F__)
  return (Floats)_mm512_maskz_permutexvar_ps(0xffff, (__m512i)at, (__m512)v);
#elif defined(KVC_HALVES)
  const auto half = [&](__m256i index) __attribute__((always_inline)) {
    const __m256 low = _mm256_permutevar8x32_ps((__m256)v.low, index),
                 high = _mm256_permutevar8x32_ps((__m256)v.high, index);
    return _mm256_blendv_ps(low, high, _mm256_castsi256_ps(_mm256_slli_epi32(index, 28)));
  };
  return of_registers(half((__m256i)at.low), half((__m256i)at.high));
#else
  Floats picked;
  for (int64_t l = 0; l < kLanes; ++l) picked[l] = v[at[l] & 15];
  return picked;
#endif
}

KVC_INLINE Ints picked(Ints v, Ints at) { return (Ints)pick((Floats)v, at); }

#ifdef KVC_HALVES
KVC_INLINE Ints::Half interleaved_half(Ints::Half a, Ints::Half b, Ints::Half c, Ints::Half d, int i) {
  const auto bytes = [&](Ints::Half x, Ints::Half y) __attribute__((always_inline)) {
    return i < 2 ? _mm256_unpacklo_epi8((__m256i)x, (__m256i)y) : _mm256_unpackhi_epi8((__m256i)x, (__m256i)y);
  };
  return (Ints::Half)(i % 2 == 0 ? _mm256_unpacklo_epi16(bytes(a, b), bytes(c, d))
                                 : _mm256_unpackhi_epi16(bytes(a, b), bytes(c, d)));
}
#endif

// The bytes of four rows, interleaved: lane 4 p + m is byte 16 p + 4 i + m of each.
KVC_INLINE Ints interleaved(Ints a, Ints b, Ints c, Ints d, int i) {
#if defined(__AVX512F__)
  const auto bytes = [&](Ints x, Ints y) __attribute__((always_inline)) {
    return i < 2 ? _mm512_unpacklo_epi8((__m512i)x, (__m512i)y) : _mm512_unpackhi_epi8((__m512i)x, (__m512i)y);
  };
  return (Ints)(i % 2 == 0 ? _mm512_unpacklo_epi16(bytes(a, b), bytes(c, d))
                           : _mm512_unpackhi_epi16(bytes(a, b), bytes(c, d)));
#elif defined(KVC_HALVES)
  return {interleaved_half(a.low, b.low, c.low, d.low, i), interleaved_half(a.high, b.high, c.high, d.high, i)};
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
#elif defined(KVC_HALVES)
  return of_registers(_mm256_shuffle_epi32((__m256i)v.low, kAt * 0x55),
                      _mm256_shuffle_epi32((__m256i)v.high, kAt * 0x55));
#else
  return __builtin_shufflevector(v, v, kAt, kAt, kAt, kAt, kAt + 4, kAt + 4, kAt + 4, kAt + 4, kAt + 8, kAt + 8,
                                 kAt + 8, kAt + 8, kAt + 12, kAt + 12, kAt + 12, kAt + 12);
#endif
}

// The lower two of each four lanes of both, in turns; the higher two
#ifdef KVC_HALVES
KVC_INLINE Floats low_pairs(Floats a, Floats b) {
  return of_registers(_mm256_unpacklo_ps((__m256)a.low, (__m256)b.low),
                      _mm256_unpacklo_ps((__m256)a.high, (__m256)b.high));
}
KVC_INLINE Floats high_pairs(Floats a, Floats b) {
  return of_registers(_mm256_unpackhi_ps((__m256)a.low, (__m256)b.low),
                      _mm256_unpackhi_ps((__m256)a.high, (__m256)b.high));
}
#else
KVC_INLINE Floats low_pairs(Floats a, Floats b) {
  return __builtin_shufflevector(a, b, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29);
}
KVC_INLINE Floats high_pairs(Floats a, Floats b) {
  return __builtin_shufflevector(a, b, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
}
#endif

#ifdef KVC_HALVES
// sums += a lane's four bytes of codes, of at most 4 bits each, times its four signed bytes, in two sums of 16 bits. They
// hold kShortSteps such dot products (8 * 2 * 15 * 128 < 2^15), so that widening to 32 bits is rare.
constexpr int64_t kShortSteps = 8;
KVC_INLINE void add_short_dots(Ints::Half& sums, Ints::Half codes, Ints::Half signed_bytes) {
  sums = (Ints::Half)_mm256_add_epi16((__m256i)sums, _mm256_maddubs_epi16((__m256i)codes, (__m256i)signed_bytes));
}
KVC_INLINE Ints::Half sum_of_shorts(Ints::Half sums, int16_t times = 1) {
  return (Ints::Half)_mm256_madd_epi16((__m256i)sums, _mm256_set1_epi16(times));
}

// Sums, lane by lane, of up to kShortSteps dot products of four codes of kBits each and four signed bytes.
template <int kBits>
struct Dots {
  static constexpr int kParts = kBits == 8 ? 2 : 1;  // pairs of products fit 16 bits for half a byte at a time
  Ints sum, shorts[kParts] = {};

  KVC_INLINE explicit Dots(Ints first) : sum(first) {}
  KVC_INLINE void add(Ints codes, Ints signed_bytes) {
    for (int part = 0; part < kParts; ++part) {
      const Ints some = kBits == 8 ? codes >> 4 * part & 0x0f0f0f0f : codes;
      add_short_dots(shorts[part].low, some.low, signed_bytes.low);
      add_short_dots(shorts[part].high, some.high, signed_bytes.high);
    }
  }
  KVC_INLINE Ints total() const {
    Ints all = sum;
    for (int part = 0; part < kParts; ++part) {
      const int16_t times = part == 0 ? 1 : 16;
      all += Ints(sum_of_shorts(shorts[part].low, times), sum_of_shorts(shorts[part].high, times));
    }
    return all;
  }
};
#else
// sum += of each lane, its four bytes of codes times its four signed bytes
KVC_INLINE void add_dots(Ints& sum, Ints codes, Ints signed_bytes) {
#if defined(__AVX512VNNI__)
  sum = (Ints)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)codes, (__m512i)signed_bytes);
#else
  for (int b = 0; b < 4; ++b) sum += (codes >> 8 * b & 255) * (signed_bytes << (24 - 8 * b) >> 24);
#endif
}
template <int kBits>
struct Dots {
  Ints sum;
  KVC_INLINE explicit Dots(Ints first) : sum(first) {}
  KVC_INLINE void add(Ints codes, Ints signed_bytes) { add_dots(sum, codes, signed_bytes); }
  KVC_INLINE Ints total() const { return sum; }
};
#endif

// Four consecutive words of 16 rows, transposed: columns[w] has word w of every row.
KVC_INLINE void transposed_words(const int32_t* rows, int64_t stride, Ints (&columns)[4]) {
#if defined(__AVX512F__) || defined(KVC_HALVES)
  const auto piece = [&](int64_t row) __attribute__((always_inline)) { return load<__m128i>(rows + row * stride); };
#endif
#if defined(__AVX512F__)
  __m512i a[4];
  for (int i = 0; i < 4; ++i) {  // rows i, 4 + i, 8 + i, 12 + i
    a[i] = _mm512_maskz_inserti32x4(0xffff, _mm512_zextsi128_si512(piece(i)), piece(4 + i), 1);
    a[i] = _mm512_maskz_inserti32x4(0xffff, a[i], piece(8 + i), 2);
    a[i] = _mm512_maskz_inserti32x4(0xffff, a[i], piece(12 + i), 3);
  }
  const __m512i low[2] = {_mm512_maskz_unpacklo_epi32(0xffff, a[0], a[1]),
                          _mm512_maskz_unpacklo_epi32(0xffff, a[2], a[3])};
  const __m512i high[2] = {_mm512_maskz_unpackhi_epi32(0xffff, a[0], a[1]),
                           _mm512_maskz_unpackhi_epi32(0xffff, a[2], a[3])};
  columns[0] = (Ints)_mm512_maskz_unpacklo_epi64(0xff, low[0], low[1]);
  columns[1] = (Ints)_mm512_maskz_unpackhi_epi64(0xff, low[0], low[1]);
  columns[2] = (Ints)_mm512_maskz_unpacklo_epi64(0xff, high[0], high[1]);
  columns[3] = (Ints)_mm512_maskz_unpackhi_epi64(0xff, high[0], high[1]);
#elif defined(KVC_HALVES)
  __m256i half[2][4];
  for (int h = 0; h < 2; ++h) {
    __m256i a[4];
    for (int i = 0; i < 4; ++i) {
      a[i] = _mm256_inserti128_si256(_mm256_castsi128_si256(piece(8 * h + i)), piece(8 * h + 4 + i), 1);
    }
    const __m256i low[2] = {_mm256_unpacklo_epi32(a[0], a[1]), _mm256_unpacklo_epi32(a[2], a[3])};
    const __m256i high[2] = {_mm256_unpackhi_epi32(a[0], a[1]), _mm256_unpackhi_epi32(a[2], a[3])};
    half[h][0] = _mm256_unpacklo_epi64(low[0], low[1]), half[h][1] = _mm256_unpackhi_epi64(low[0], low[1]);
    half[h][2] = _mm256_unpacklo_epi64(high[0], high[1]), half[h][3] = _mm256_unpackhi_epi64(high[0], high[1]);
  }
  for (int w = 0; w < 4; ++w) columns[w] = of_registers(half[0][w], half[1][w]);
#else
  for (int w = 0; w < 4; ++w) {
    for (int64_t l = 0; l < kLanes; ++l) columns[w][l] = rows[l * stride + w];
  }
#endif
}

// To whole numbers, halves to even; |x| < 2^31
KVC_INLINE Ints rounded(Floats x) {
#if defined(__AVX512F__)
  return (Ints)_mm512_maskz_cvtps_epi32(0xffff, (__m512)x);
#elif defined(KVC_HALVES)
  return of_registers(_mm256_cvtps_epi32((__m256)x.low), _mm256_cvtps_epi32((__m256)x.high));
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
#elif defined(KVC_HALVES)
  return of_registers(_mm256_cvtph_ps(load<__m128i>(x)), _mm256_cvtph_ps(load<__m128i>(x + 8)));
#else
  return half_values(load<Shorts>(x));
#endif
}

// 16 bytes, each in a lane: without a sign, and with one.
#if defined(__AVX512F__)
KVC_INLINE Ints bytes_at(const void* bytes) {  // masked: the compiler warns of the plain one's innards
  return (Ints)_mm512_maskz_cvtepu8_epi32(0xffff, load<__m128i>(bytes));
}
KVC_INLINE Ints signed_bytes_at(const void* bytes) {
  return (Ints)_mm512_maskz_cvtepi8_epi32(0xffff, load<__m128i>(bytes));
}
#elif defined(KVC_HALVES)
KVC_INLINE Ints bytes_at(const void* bytes) {
  const auto v = load<__m128i>(bytes);
  return of_registers(_mm256_cvtepu8_epi32(v), _mm256_cvtepu8_epi32(_mm_srli_si128(v, 8)));
}
KVC_INLINE Ints signed_bytes_at(const void* bytes) {
  const auto v = load<__m128i>(bytes);
  return of_registers(_mm256_cvtepi8_epi32(v), _mm256_cvtepi8_epi32(_mm_srli_si128(v, 8)));
}
#else
typedef int8_t SignedBytes __attribute__((vector_size(16)));
KVC_INLINE Ints bytes_at(const void* bytes) { return __builtin_convertvector(load<Bytes>(bytes), Ints); }
KVC_INLINE Ints signed_bytes_at(const void* bytes) { return __builtin_convertvector(load<SignedBytes>(bytes), Ints); }
#endif

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
// The same of e5m2, times 2^-112; no infinity.
KVC_INLINE Floats tiny_e5m2_of(Ints words) { return (Floats)(words >> 3 & static_cast<int32_t>(0x8fe00000)); }
KVC_INLINE Floats e4m3_of(Ints words) { return tiny_e4m3_of(words) * 0x1p120f; }

KVC_INLINE Floats numbers_of(const void* x, NumberType type) {
  switch (type) {
    case NumberType::f32:
      return load<Floats>(x);
    case NumberType::f16:
      return halves(static_cast<const uint16_t*>(x));
    case NumberType::e8m0: {
      const Ints exponents = bytes_at(x);
      return (Floats)(exponents << 23 | ((exponents == 0) & 1 << 22));  // 2^-127 is no normal number
    }
    case NumberType::e4m3:
      return e4m3_of(bytes_at(x) << 24);
    case NumberType::bf16:
      break;  // only devices read it
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
  const Floats numbers = numbers_of(padded, x.type);
  return x.n == 1 ? Floats{} + numbers[0] : numbers;
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
    case NumberType::bf16:
      break;
  }
}
// Sums of neighbours: a's, then b's.
#ifdef KVC_HALVES
KVC_INLINE Floats folded(Floats a, Floats b) {
  const auto half = [](Floats v) __attribute__((always_inline)) {
    return __builtin_shufflevector(v.low, v.high, 0, 2, 4, 6, 8, 10, 12, 14) +
           __builtin_shufflevector(v.low, v.high, 1, 3, 5, 7, 9, 11, 13, 15);
  };
  return {half(a), half(b)};
}
#else
KVC_INLINE Floats folded(Floats a, Floats b) {
  return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30) +
         __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
}
#endif

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
