// What the loops over codes and factors are made of, for one kind of machine; each KVC_MACHINE is a file with flags of
// its own, since the compiler makes of generic code for permutations and halves some dozens of instructions.
#pragma once

#ifdef __AVX2__
#include <immintrin.h>
#endif

#include <algorithm>

#include "kernels/code_products.h"
#include "kernels/lanes.h"

namespace kvc::kernels::KVC_MACHINE {

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
// e4m3 in the high byte of each word -> fp32; no NaN. Sign, exponent and fraction go to a float's places.
KVC_INLINE Floats e4m3_of(Ints words) { return (Floats)(words >> 4 & static_cast<int32_t>(0x87f00000)) * 0x1p120f; }

KVC_INLINE int64_t size_of(SideType type) { return type == SideType::f32 ? 4 : type == SideType::f16 ? 2 : 1; }
KVC_INLINE Floats sides_of(const void* x, SideType type) {
  switch (type) {
    case SideType::f32:
      return load<Floats>(x);
    case SideType::f16:
      return halves(static_cast<const uint16_t*>(x));
    case SideType::e8m0: {
      const Ints exponents = __builtin_convertvector(load<Bytes>(x), Ints);
      return (Floats)(exponents << 23 | ((exponents == 0) & 1 << 22));  // 2^-127 is no normal number
    }
    case SideType::e4m3:
      return e4m3_of(__builtin_convertvector(load<Bytes>(x), Ints) << 24);
  }
  return Floats{};
}
// Entries [first, first + 16), zeros behind the last.
KVC_INLINE Floats sides_at(const Sides& x, int64_t first) {
  const int64_t size = size_of(x.type);
  const auto* bytes = static_cast<const char*>(x.data);
  if (first + kLanes <= x.n) return sides_of(bytes + first * size, x.type);
  char padded[sizeof(Floats)] = {};
  std::memcpy(padded, bytes + (x.n == 1 ? 0 : first * size), static_cast<size_t>((x.n == 1 ? 1 : x.n - first) * size));
  const Floats sides = sides_of(padded, x.type);
  return x.n == 1 ? Floats{} + sides[0] : sides;
}
// Entry first + at[lane] for each lane, all of them there.
KVC_INLINE Floats sides_at(const Sides& x, int64_t first, Ints at) {
  if (x.n < kLanes) return pick(sides_at(x, first), at);
  const int64_t from = std::min(first, x.n - kLanes);
  const Floats sides = sides_of(static_cast<const char*>(x.data) + from * size_of(x.type), x.type);
  return pick(sides, at + static_cast<int32_t>(first - from));
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

// The row of each lane where `n` entries of one stand together
KVC_INLINE Ints lanes_over(int64_t n) {
  Ints at = {};
  for (int64_t l = 0; l < kLanes; ++l) at[l] = static_cast<int32_t>(l / n);
  return at;
}

}  // namespace kvc::kernels::KVC_MACHINE
