#pragma once
// CUDA's functions of numbers and bits, and atomics.

#include <math.h>  // the names without std::, as kernels call them

#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "cuda_emulator/global_memory.h"
#include "cuda_emulator/pointers.h"

namespace kvc::cuda_emulated {

#define KVC_MIN_MAX(type)                                   \
  inline type min(type a, type b) { return b < a ? b : a; } \
  inline type max(type a, type b) { return a < b ? b : a; }
KVC_MIN_MAX(int)
KVC_MIN_MAX(unsigned)
KVC_MIN_MAX(long)
KVC_MIN_MAX(unsigned long)
#undef KVC_MIN_MAX
inline float min(float a, float b) { return std::fmin(a, b); }
inline float max(float a, float b) { return std::fmax(a, b); }

// What hardware approximates is exact here, to rounding.
inline float flushed(double value) {
  const float near = static_cast<float>(value);
  return std::fabs(near) < std::numeric_limits<float>::min() ? 0.0f * near : near;
}
inline float exp2_approx(float x) { return flushed(std::exp2(static_cast<double>(x))); }
inline float __expf(float x) { return static_cast<float>(std::exp(static_cast<double>(x))); }
inline float __logf(float x) { return static_cast<float>(std::log(static_cast<double>(x))); }
inline float __log2f(float x) { return static_cast<float>(std::log2(static_cast<double>(x))); }
inline float __fdividef(float a, float b) { return a / b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __frcp_rn(float a) { return 1.0f / a; }
inline float fmaf(float a, float b, float c) { return std::fmaf(a, b, c); }
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float rsqrtf(float a) { return static_cast<float>(1 / std::sqrt(static_cast<double>(a))); }
inline int __float2int_rn(float a) { return static_cast<int>(std::nearbyint(a)); }
inline int __float2int_rd(float a) { return static_cast<int>(std::floor(a)); }
inline int __float2int_rz(float a) { return static_cast<int>(a); }
inline unsigned __float2uint_rn(float a) { return static_cast<unsigned>(std::nearbyint(a)); }
inline float __int2float_rn(int a) { return static_cast<float>(a); }
inline float __uint2float_rn(unsigned a) { return static_cast<float>(a); }

inline float __int_as_float(int bits) { return std::bit_cast<float>(bits); }
inline float __uint_as_float(unsigned bits) { return std::bit_cast<float>(bits); }
inline int __float_as_int(float value) { return std::bit_cast<int>(value); }
inline unsigned __float_as_uint(float value) { return std::bit_cast<unsigned>(value); }
inline int __popc(unsigned bits) { return std::popcount(bits); }
inline int __popcll(unsigned long long bits) { return std::popcount(bits); }
inline int __clz(int bits) { return std::countl_zero(static_cast<unsigned>(bits)); }
inline int __ffs(int bits) { return bits == 0 ? 0 : std::countr_zero(static_cast<unsigned>(bits)) + 1; }
inline unsigned __brev(unsigned bits) {
  unsigned reversed = 0;
  for (int i = 0; i < 32; ++i) {
    reversed |= (bits >> i & 1) << (31 - i);
  }
  return reversed;
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned by) {
  return static_cast<unsigned>(((std::uint64_t{high} << 32 | low) << (by & 31)) >> 32);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned by) {
  return static_cast<unsigned>((std::uint64_t{high} << 32 | low) >> (by & 31));
}
inline int __dp4a(int a, int b, int sum) {
  for (int i = 0; i < 32; i += 8) {
    sum += static_cast<signed char>(a >> i) * static_cast<signed char>(b >> i);
  }
  return sum;
}

// For each bit: Table's bit number 4 a + 2 b + c.
template <int Table>
unsigned lop3(unsigned a, unsigned b, unsigned c) {
  unsigned result = 0;
  for (int row = 0; row < 8; ++row) {
    if (Table >> row & 1) {
      result |= (row & 4 ? a : ~a) & (row & 2 ? b : ~b) & (row & 1 ? c : ~c);
    }
  }
  return result;
}
inline unsigned prmt(unsigned a, unsigned b, unsigned selector) {
  const std::uint64_t bytes = std::uint64_t{b} << 32 | a;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i) {
    const unsigned chosen = selector >> 4 * i & 0xF;
    const auto byte = static_cast<unsigned char>(bytes >> 8 * (chosen & 7));
    result |= (chosen & 8 ? (byte & 0x80 ? 0xFFu : 0u) : unsigned{byte}) << 8 * i;
  }
  return result;
}
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) { return prmt(a, b, selector & 0x7777u); }

// Atomics return the value before.
template <class T, class Change>
T change_shared(smem_ptr<T> to, Change changed, Where where) {
  touch_shared(to.address(), sizeof(T), alignof(T), to.begin(), to.end(), Access::atomic, where);
  const T before = *to.address();
  *to.address() = changed(before);
  return before;
}
template <class T, class Change>
T change_global(T& to, Change changed) {
  std::atomic_ref<T> value(to);
  T before = value.load();
  while (!value.compare_exchange_weak(before, changed(before))) {
  }
  forget_global(&to, sizeof(T));
  return before;
}
#define KVC_ATOMIC(name, expression)                                                      \
  template <class T>                                                                      \
  T name(smem_ptr<T> to, std::type_identity_t<T> value, Where where = Where::current()) { \
    return change_shared(                                                                 \
        to, [&](T before) -> T { return expression; }, where);                            \
  }                                                                                       \
  template <class T>                                                                      \
  T name(gmem_ptr<T> to, std::type_identity_t<T> value, Where where = Where::current()) { \
    return change_global(to[At(0, where)], [&](T before) -> T { return expression; });    \
  }                                                                                       \
  template <class T>                                                                      \
  T name(T* to, std::type_identity_t<T> value) {                                          \
    return change_global(*to, [&](T before) -> T { return expression; });                 \
  }
KVC_ATOMIC(atomicAdd, before + value)
KVC_ATOMIC(atomicSub, before - value)
KVC_ATOMIC(atomicMin, value < before ? value : before)
KVC_ATOMIC(atomicMax, before < value ? value : before)
KVC_ATOMIC(atomicAnd, before& value)
KVC_ATOMIC(atomicOr, before | value)
KVC_ATOMIC(atomicXor, before ^ value)
KVC_ATOMIC(atomicExch, value)
#undef KVC_ATOMIC
template <class T>
T atomicCAS(smem_ptr<T> to, std::type_identity_t<T> expected, std::type_identity_t<T> value,
            Where where = Where::current()) {
  return change_shared(
      to, [&](T before) { return before == expected ? value : before; }, where);
}
template <class T>
T atomicCAS(T* to, std::type_identity_t<T> expected, std::type_identity_t<T> value) {
  return change_global(*to, [&](T before) { return before == expected ? value : before; });
}

}  // namespace kvc::cuda_emulated
