// Sixteen floats at a time: what this folder's loops are made of, compiled for several machines.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "kvc/clones.h"

#define KVC_INLINE inline __attribute__((always_inline))

namespace kvc::kernels {

constexpr int64_t kLanes = 16;
constexpr int64_t kAhead = 4096;  // bytes that memory is asked for before their use: the latency of a few lines

typedef float Floats __attribute__((vector_size(64)));
typedef int32_t Ints __attribute__((vector_size(64)));
typedef uint16_t Shorts __attribute__((vector_size(32)));
typedef uint8_t Bytes __attribute__((vector_size(16)));

template <class V>
KVC_INLINE V load(const void* x) {
  V v;
  std::memcpy(&v, x, sizeof(v));
  return v;
}
template <class V>
KVC_INLINE void store(const V& v, void* x) {
  std::memcpy(x, &v, sizeof(v));
}
KVC_INLINE Ints words(const void* w) { return load<Ints>(w); }

// fp16 bits -> fp32; finite values only
KVC_INLINE float half_value(uint32_t bits) {
  const float magnitude = std::bit_cast<float>((bits & 0x7fffu) << 13) * 0x1p112f;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | (bits & 0x8000u) << 16);
}

KVC_INLINE Floats half_values(Shorts halves) {
  const Ints bits = __builtin_convertvector(halves, Ints);
  const Floats magnitude = (Floats)((bits & 0x7fff) << 13) * 0x1p112f;
  return (Floats)((Ints)magnitude | (bits & 0x8000) << 16);
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

}  // namespace kvc::kernels
