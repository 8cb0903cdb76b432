// Sixteen floats at a time: what this folder's loops are made of, compiled for several machines.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kvc/clones.h"

#define KVC_INLINE inline __attribute__((always_inline))

namespace kvc::kernels {

constexpr int64_t kLanes = 16;
constexpr int64_t kAhead = 4096;  // bytes that memory is asked for before their use: the latency of a few lines

typedef float Floats __attribute__((vector_size(64)));
typedef int32_t Ints __attribute__((vector_size(64)));
typedef uint16_t Shorts __attribute__((vector_size(32)));
typedef uint8_t Bytes __attribute__((vector_size(16)));

// Sixteen numbers as two vectors of eight, for machines whose registers hold eight (AVX2): the compiler would keep a
// vector of 64 bytes in memory there and move it in pieces, at a fifth of the speed or less.
template <class T>
struct Sixteen {
  typedef T Half __attribute__((vector_size(8 * sizeof(T))));
  Half low, high;

  Sixteen() = default;
  KVC_INLINE constexpr Sixteen(Half a, Half b) : low(a), high(b) {}
  KVC_INLINE constexpr Sixteen(T a, T b, T c, T d, T e, T f, T g, T h, T i, T j, T k, T l, T m, T n, T o, T p)
      : low{a, b, c, d, e, f, g, h}, high{i, j, k, l, m, n, o, p} {}
  template <class U>
  KVC_INLINE explicit Sixteen(const Sixteen<U>& same_bits) : low((Half)same_bits.low), high((Half)same_bits.high) {}

  KVC_INLINE T& operator[](int64_t lane) { return reinterpret_cast<T*>(this)[lane]; }
  KVC_INLINE T operator[](int64_t lane) const { return reinterpret_cast<const T*>(this)[lane]; }

  friend KVC_INLINE Sixteen operator-(Sixteen a) { return {-a.low, -a.high}; }
  friend KVC_INLINE Sixteen operator~(Sixteen a) { return {~a.low, ~a.high}; }
};

#define KVC_OPERATOR(Result, op)                                           \
  template <class T>                                                       \
  KVC_INLINE Result operator op(Sixteen<T> a, Sixteen<T> b) {              \
    return {a.low op b.low, a.high op b.high};                             \
  }                                                                        \
  template <class T>                                                       \
  KVC_INLINE Result operator op(Sixteen<T> a, std::type_identity_t<T> b) { \
    return {a.low op b, a.high op b};                                      \
  }                                                                        \
  template <class T>                                                       \
  KVC_INLINE Result operator op(std::type_identity_t<T> a, Sixteen<T> b) { \
    return {a op b.low, a op b.high};                                      \
  }
#define KVC_ASSIGNING_OPERATOR(op)                            \
  KVC_OPERATOR(Sixteen<T>, op)                                \
  template <class T, class U>                                 \
  KVC_INLINE Sixteen<T>& operator op##=(Sixteen<T>& a, U b) { \
    return a = a op b;                                        \
  }
KVC_ASSIGNING_OPERATOR(+)
KVC_ASSIGNING_OPERATOR(-)
KVC_ASSIGNING_OPERATOR(*)
KVC_ASSIGNING_OPERATOR(&)
KVC_ASSIGNING_OPERATOR(|)
KVC_ASSIGNING_OPERATOR(^)
KVC_ASSIGNING_OPERATOR(<<)
KVC_ASSIGNING_OPERATOR(>>)
KVC_OPERATOR(Sixteen<int32_t>, <)
KVC_OPERATOR(Sixteen<int32_t>, >)
KVC_OPERATOR(Sixteen<int32_t>, ==)
#undef KVC_ASSIGNING_OPERATOR
#undef KVC_OPERATOR

template <class V>
KVC_INLINE V load(const void* x) {
  if constexpr (requires { typename V::Half; }) {
    using Half = typename V::Half;
    return {load<Half>(x), load<Half>(static_cast<const char*>(x) + sizeof(Half))};
  } else {
    V v;
    std::memcpy(&v, x, sizeof(v));
    return v;
  }
}
template <class V>
KVC_INLINE void store(const V& v, void* x) {
  std::memcpy(x, &v, sizeof(v));
}
template <class T>
KVC_INLINE void store(const Sixteen<T>& v, void* x) {
  store(v.low, x), store(v.high, static_cast<char*>(x) + sizeof(v.low));
}
KVC_INLINE Ints words(const void* w) { return load<Ints>(w); }

// fp16 bits -> fp32; finite values only
KVC_INLINE float half_value(uint32_t bits) {
  const float magnitude = std::bit_cast<float>((bits & 0x7fffu) << 13) * 0x1p112f;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | (bits & 0x8000u) << 16);
}

template <class F, class I>
KVC_INLINE F half_values(I bits) {
  const F magnitude = (F)((bits & 0x7fff) << 13) * 0x1p112f;
  return (F)((I)magnitude | (bits & 0x8000) << 16);
}
KVC_INLINE Floats half_values(Shorts halves) { return half_values<Floats>(__builtin_convertvector(halves, Ints)); }
KVC_INLINE Sixteen<float> half_values(Sixteen<uint16_t> halves) {
  using F = Sixteen<float>::Half;
  using I = Sixteen<int32_t>::Half;
  return {half_values<F>(__builtin_convertvector(halves.low, I)),
          half_values<F>(__builtin_convertvector(halves.high, I))};
}

KVC_INLINE float total(Floats v) {
  v += __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7);
  v += __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3);
  v += __builtin_shufflevector(v, v, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1);
  return v[0] + v[1];
}

// The totals of four vectors, each summed as total() sums one.
KVC_INLINE void add_totals(const Floats* v, float* y) {
  const auto fold = [](Floats a, Floats b) __attribute__((always_inline)) {
    return __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23) +
           __builtin_shufflevector(a, b, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
  };
  const Floats ab = fold(v[0], v[1]), cd = fold(v[2], v[3]);
  Floats s = __builtin_shufflevector(ab, cd, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27) +
             __builtin_shufflevector(ab, cd, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
  s += __builtin_shufflevector(s, s, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13);
  s += __builtin_shufflevector(s, s, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14);
  for (int i = 0; i < 4; ++i) y[i] += s[4 * i];
}

// As total and add_totals of vectors, to the same bits.
KVC_INLINE float total(Sixteen<float> v) {
  const auto eight = v.low + v.high;
  const auto four = eight + __builtin_shufflevector(eight, eight, 4, 5, 6, 7, 0, 1, 2, 3);
  const auto two = four + __builtin_shufflevector(four, four, 2, 3, 0, 1, 2, 3, 0, 1);
  return two[0] + two[1];
}
KVC_INLINE void add_totals(const Sixteen<float>* v, float* y) {
  const auto fold = [](Sixteen<float>::Half a, Sixteen<float>::Half b) __attribute__((always_inline)) {
    return __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11) +
           __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15);
  };
  Sixteen<float> s = {fold(v[0].low + v[0].high, v[1].low + v[1].high),
                      fold(v[2].low + v[2].high, v[3].low + v[3].high)};
  const auto finish = [](Sixteen<float>::Half h) __attribute__((always_inline)) {
    h += __builtin_shufflevector(h, h, 2, 3, 0, 1, 6, 7, 4, 5);
    return h + __builtin_shufflevector(h, h, 1, 0, 3, 2, 5, 4, 7, 6);
  };
  s.low = finish(s.low), s.high = finish(s.high);
  y[0] += s.low[0], y[1] += s.low[4], y[2] += s.high[0], y[3] += s.high[4];
}

}  // namespace kvc::kernels
