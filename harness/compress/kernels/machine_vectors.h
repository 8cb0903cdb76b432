// Sixteen floats or whole numbers of one kind of machine: a vector, or with AVX2 two halves. Each KVC_MACHINE is a file
// with flags of its own.
#pragma once

#ifdef __AVX2__
#include <immintrin.h>
#endif

#include "kernels/lanes.h"

namespace kvc::kernels::KVC_MACHINE {

#if defined(__AVX2__) && !defined(__AVX512F__)
#define KVC_HALVES 1

using Floats = Sixteen<float>;
using Ints = Sixteen<int32_t>;

KVC_INLINE Ints words(const void* w) { return load<Ints>(w); }

KVC_INLINE Ints select(Ints mask, Ints a, Ints b) { return {mask.low ? a.low : b.low, mask.high ? a.high : b.high}; }
KVC_INLINE Floats floats_of(Ints v) {
  return {__builtin_convertvector(v.low, Floats::Half), __builtin_convertvector(v.high, Floats::Half)};
}

KVC_INLINE Floats of_registers(__m256 low, __m256 high) { return {(Floats::Half)low, (Floats::Half)high}; }
KVC_INLINE Ints of_registers(__m256i low, __m256i high) { return {(Ints::Half)low, (Ints::Half)high}; }

#else

KVC_INLINE Ints select(Ints mask, Ints a, Ints b) { return mask ? a : b; }
KVC_INLINE Floats floats_of(Ints v) { return __builtin_convertvector(v, Floats); }

#endif

}  // namespace kvc::kernels::KVC_MACHINE
