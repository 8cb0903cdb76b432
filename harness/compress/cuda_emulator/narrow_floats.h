#pragma once
// half and bfloat16 by the names of cuda_fp16.h and cuda_bf16.h, without a toolkit: each operation is computed exactly
// and rounded once, to nearest even.

#include <algorithm>
#include <bit>
#include <cmath>
#include <concepts>
#include <cstdint>

#include "cuda_emulator/vectors.h"

namespace kvc::cuda_emulated {

// a + b, of which the last bit says whether something was cut off: what is rounded from it is rounded once.
inline double add_to_odd(double a, double b) {
  const double sum = a + b;
  const double back = sum - a;
  const double error = (a - (sum - back)) + (b - back);
  const auto bits = std::bit_cast<std::uint64_t>(sum);
  if (!std::isfinite(sum) || error == 0 || (bits & 1)) {
    return sum;
  }
  return std::bit_cast<double>((error > 0) == (sum > 0) ? bits + 1 : bits - 1);
}

struct HalfFormat {
  static float decode(std::uint16_t bits) {  // as a conversion of _Float16 does, but without a call of the library
    const std::uint32_t sign = std::uint32_t{bits & 0x8000u} << 16;
    const std::uint32_t number = std::uint32_t{bits & 0x7FFFu} << 13;
    const float magnitude = (bits & 0x7C00) == 0x7C00 ? std::bit_cast<float>(number | 0x7F800000u)
                                                      : std::bit_cast<float>(number) * 0x1p112f;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
  }
  static std::uint16_t encode(double value) { return std::bit_cast<std::uint16_t>(static_cast<_Float16>(value)); }
};
struct BfloatFormat {
  static float decode(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); }
  static std::uint16_t encode(double value) {
    float near = static_cast<float>(value);
    std::uint32_t bits = std::bit_cast<std::uint32_t>(near);
    if (std::isnan(value)) {
      return 0x7FFF;
    }
    if (near != value && std::isfinite(near) && !(bits & 1)) {
      bits += (std::abs(value) > std::abs(near)) ? 1 : -1;  // to odd
    }
    return static_cast<std::uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
  }
};

template <class Format>
struct Narrow {
  std::uint16_t bits;
  Narrow() = default;
  template <class Number>
  requires std::is_arithmetic_v<Number> Narrow(Number value) : bits(Format::encode(static_cast<double>(value))) {}
  operator float() const { return Format::decode(bits); }
  static Narrow of(double value) { return Narrow(value); }
  static Narrow of_bits(unsigned bits) {
    Narrow narrow;
    narrow.bits = static_cast<std::uint16_t>(bits);
    return narrow;
  }
  double exact() const { return Format::decode(bits); }

  friend Narrow operator+(Narrow a, Narrow b) { return of(a.exact() + b.exact()); }
  friend Narrow operator-(Narrow a, Narrow b) { return of(a.exact() - b.exact()); }
  friend Narrow operator*(Narrow a, Narrow b) { return of(a.exact() * b.exact()); }
  friend Narrow operator/(Narrow a, Narrow b) { return of(a.exact() / b.exact()); }
  friend Narrow operator-(Narrow a) { return of_bits(a.bits ^ 0x8000u); }
  friend Narrow& operator+=(Narrow& a, Narrow b) { return a = a + b; }
  friend Narrow& operator-=(Narrow& a, Narrow b) { return a = a - b; }
  friend Narrow& operator*=(Narrow& a, Narrow b) { return a = a * b; }
  friend bool operator==(Narrow a, Narrow b) { return a.exact() == b.exact(); }
  friend bool operator<(Narrow a, Narrow b) { return a.exact() < b.exact(); }
  friend bool operator>(Narrow a, Narrow b) { return a.exact() > b.exact(); }
  friend bool operator<=(Narrow a, Narrow b) { return a.exact() <= b.exact(); }
  friend bool operator>=(Narrow a, Narrow b) { return a.exact() >= b.exact(); }

  friend Narrow __hadd(Narrow a, Narrow b) { return a + b; }
  friend Narrow __hsub(Narrow a, Narrow b) { return a - b; }
  friend Narrow __hmul(Narrow a, Narrow b) { return a * b; }
  friend Narrow __hdiv(Narrow a, Narrow b) { return a / b; }
  friend Narrow __hfma(Narrow a, Narrow b, Narrow c) { return of(add_to_odd(a.exact() * b.exact(), c.exact())); }
  friend Narrow __hneg(Narrow a) { return -a; }
  friend Narrow __habs(Narrow a) { return of_bits(a.bits & 0x7FFFu); }
  friend Narrow __hmax(Narrow a, Narrow b) { return of(std::fmax(a.exact(), b.exact())); }
  friend Narrow __hmin(Narrow a, Narrow b) { return of(std::fmin(a.exact(), b.exact())); }
  friend bool __hgt(Narrow a, Narrow b) { return a > b; }
  friend bool __hlt(Narrow a, Narrow b) { return a < b; }
  friend bool __heq(Narrow a, Narrow b) { return a == b; }
  friend bool __hisnan(Narrow a) { return std::isnan(a.exact()); }
  friend Narrow hexp2(Narrow a) { return of(std::exp2(a.exact())); }
  friend Narrow hexp(Narrow a) { return of(std::exp(a.exact())); }
  friend Narrow hsqrt(Narrow a) { return of(std::sqrt(a.exact())); }
  friend Narrow hrcp(Narrow a) { return of(1 / a.exact()); }
  friend Narrow hrsqrt(Narrow a) { return of(1 / std::sqrt(a.exact())); }
};

template <class Format>
struct alignas(4) NarrowPair {
  using One = Narrow<Format>;
  One x, y;
  NarrowPair() = default;
  NarrowPair(One x, One y) : x(x), y(y) {}

#define KVC_PAIR_OF_TWO(name, one) \
  friend NarrowPair name(NarrowPair a, NarrowPair b) { return {one(a.x, b.x), one(a.y, b.y)}; }
#define KVC_PAIR_OF_ONE(name, one) \
  friend NarrowPair name(NarrowPair a) { return {one(a.x), one(a.y)}; }
  KVC_PAIR_OF_TWO(operator+, __hadd)
  KVC_PAIR_OF_TWO(operator-, __hsub)
  KVC_PAIR_OF_TWO(operator*, __hmul)
  KVC_PAIR_OF_TWO(operator/, __hdiv)
  KVC_PAIR_OF_TWO(__hadd2, __hadd)
  KVC_PAIR_OF_TWO(__hsub2, __hsub)
  KVC_PAIR_OF_TWO(__hmul2, __hmul)
  KVC_PAIR_OF_TWO(__h2div, __hdiv)
  KVC_PAIR_OF_TWO(__hmax2, __hmax)
  KVC_PAIR_OF_TWO(__hmin2, __hmin)
  KVC_PAIR_OF_ONE(__hneg2, __hneg)
  KVC_PAIR_OF_ONE(__habs2, __habs)
  KVC_PAIR_OF_ONE(h2exp2, hexp2)
  KVC_PAIR_OF_ONE(h2exp, hexp)
  KVC_PAIR_OF_ONE(h2rcp, hrcp)
#undef KVC_PAIR_OF_TWO
#undef KVC_PAIR_OF_ONE
  friend NarrowPair __hfma2(NarrowPair a, NarrowPair b, NarrowPair c) {
    return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};
  }
  friend One __low2half(NarrowPair pair) { return pair.x; }
  friend One __high2half(NarrowPair pair) { return pair.y; }
  friend One __low2bfloat16(NarrowPair pair) { return pair.x; }
  friend One __high2bfloat16(NarrowPair pair) { return pair.y; }
  friend float __low2float(NarrowPair pair) { return pair.x; }
  friend float __high2float(NarrowPair pair) { return pair.y; }
  friend NarrowPair __lows2half2(NarrowPair a, NarrowPair b) { return {a.x, b.x}; }
  friend NarrowPair __highs2half2(NarrowPair a, NarrowPair b) { return {a.y, b.y}; }
  friend NarrowPair __lowhigh2highlow(NarrowPair a) { return {a.y, a.x}; }
  friend unsigned as_bits(NarrowPair pair) { return std::bit_cast<unsigned>(pair); }
};

using __half = Narrow<HalfFormat>;
using __half2 = NarrowPair<HalfFormat>;
using __nv_bfloat16 = Narrow<BfloatFormat>;
using __nv_bfloat162 = NarrowPair<BfloatFormat>;
using half = __half;
using half2 = __half2;
using nv_bfloat16 = __nv_bfloat16;
using nv_bfloat162 = __nv_bfloat162;

inline __half2 as_half2(unsigned bits) { return std::bit_cast<__half2>(bits); }
inline __nv_bfloat162 as_bfloat162(unsigned bits) { return std::bit_cast<__nv_bfloat162>(bits); }

inline half __float2half(float x) { return half(x); }
inline half __float2half_rn(float x) { return half(x); }
inline float __half2float(half x) { return x; }
inline half __int2half_rn(int x) { return half(x); }
inline half __ushort2half_rn(unsigned short x) { return half(x); }
inline half __ushort_as_half(unsigned short bits) { return half::of_bits(bits); }
inline unsigned short __half_as_ushort(half x) { return x.bits; }
inline half2 __floats2half2_rn(float x, float y) { return {half(x), half(y)}; }
inline half2 __float22half2_rn(float2 v) { return {half(v.x), half(v.y)}; }
inline half2 __float2half2_rn(float x) { return {half(x), half(x)}; }
inline float2 __half22float2(half2 pair) { return {pair.x, pair.y}; }
inline half2 __halves2half2(half x, half y) { return {x, y}; }
inline half2 __half2half2(half x) { return {x, x}; }
inline half2 make_half2(half x, half y) { return {x, y}; }

inline nv_bfloat16 __float2bfloat16(float x) { return nv_bfloat16(x); }
inline nv_bfloat16 __float2bfloat16_rn(float x) { return nv_bfloat16(x); }
inline float __bfloat162float(nv_bfloat16 x) { return x; }
inline nv_bfloat16 __ushort_as_bfloat16(unsigned short bits) { return nv_bfloat16::of_bits(bits); }
inline unsigned short __bfloat16_as_ushort(nv_bfloat16 x) { return x.bits; }
inline nv_bfloat162 __floats2bfloat162_rn(float x, float y) { return {nv_bfloat16(x), nv_bfloat16(y)}; }
inline nv_bfloat162 __float22bfloat162_rn(float2 v) { return {nv_bfloat16(v.x), nv_bfloat16(v.y)}; }
inline nv_bfloat162 __float2bfloat162_rn(float x) { return {nv_bfloat16(x), nv_bfloat16(x)}; }
inline float2 __bfloat1622float2(nv_bfloat162 pair) { return {pair.x, pair.y}; }
inline nv_bfloat162 __halves2bfloat162(nv_bfloat16 x, nv_bfloat16 y) { return {x, y}; }
inline nv_bfloat162 __bfloat162bfloat162(nv_bfloat16 x) { return {x, x}; }
inline nv_bfloat162 make_bfloat162(nv_bfloat16 x, nv_bfloat16 y) { return {x, y}; }

}  // namespace kvc::cuda_emulated
