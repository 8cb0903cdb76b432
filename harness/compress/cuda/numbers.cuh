// Stored numbers of all types as floats, and back.
#pragma once

#include "cuda/warp.cuh"
#include "kvc/quant/stored_numbers.h"

namespace kvc::KVC_DEVICE {

struct Numbers {
  gmem_ptr<const unsigned char> data;
  NumberType type;
  int64_t n;
};

__device__ __forceinline__ float float_of_e4m3(unsigned byte) {  // its exponent has 8 less than that of a half
  const unsigned bits = (byte & 0x80u) << 8 | (byte & 0x7fu) << 7;
  return __low2float(as_half2(bits)) * 256.0f;
}

__device__ __forceinline__ float float_of_e5m2(unsigned byte) {  // the upper byte of a half
  return __low2float(as_half2(byte << 8));
}

__device__ __forceinline__ float number_of(gmem_ptr<const unsigned char> data, NumberType type, int64_t i) {
  switch (type) {
    case NumberType::f32:
      return pointer_cast<const float>(data)[i];
    case NumberType::f16:
      return to_float(pointer_cast<const __half>(data)[i]);
    case NumberType::bf16:
      return to_float(pointer_cast<const __nv_bfloat16>(data)[i]);
    case NumberType::e8m0: {  // 2^-127 is no normal number
      const unsigned byte = data[i];
      return __uint_as_float(byte == 0 ? 0x00400000u : byte << 23);
    }
    default:
      return float_of_e4m3(data[i]);
  }
}
__device__ __forceinline__ float number_of(const Numbers& x, int64_t i) { return number_of(x.data, x.type, i); }

// The float of 8 bits that is nearest to x, of two the even one; beyond the largest the largest.
__device__ __forceinline__ unsigned float8_of(Float8 type, float x) {
  const bool e4m3 = type == Float8::e4m3;
  const int fraction = e4m3 ? 3 : 2, bias = e4m3 ? 7 : 15, dropped = 23 - fraction;
  const float size = fminf(fabsf(x), e4m3 ? 448.0f : 57344.0f), least = e4m3 ? 0x1p-6f : 0x1p-14f;
  const unsigned sign = __float_as_uint(x) >> 31 << 7;
  if (size < least) return sign | static_cast<unsigned>(rintf(size * (e4m3 ? 0x1p9f : 0x1p16f)));
  const unsigned bits = __float_as_uint(size), odd = bits >> dropped & 1u;
  return sign |
         ((bits + (1u << (dropped - 1)) - 1u + odd) >> dropped) - (static_cast<unsigned>(127 - bias) << fraction);
}

// The float e2m1 that is nearest to x, of two the even one; beyond 6 it is 6.
__device__ __forceinline__ unsigned e2m1_of(float x) {
  const float size = fminf(fabsf(x), 6.0f);
  const float code = size < 2.0f ? rintf(size * 2.0f) : size < 4.0f ? rintf(size) + 2.0f : rintf(size * 0.5f) + 4.0f;
  return static_cast<unsigned>(code) | __float_as_uint(x) >> 31 << 3;
}

// Rounds to fp16, bf16 or fp32, and returns what is stored.
__device__ __forceinline__ float put_number(gmem_ptr<unsigned char> data, NumberType type, int64_t i, float x) {
  if (type == NumberType::f16) {
    const __half half = __float2half_rn(x);
    pointer_cast<__half>(data)[i] = half;
    return to_float(half);
  }
  if (type == NumberType::bf16) {
    const __nv_bfloat16 half = __float2bfloat16_rn(x);
    pointer_cast<__nv_bfloat16>(data)[i] = half;
    return to_float(half);
  }
  pointer_cast<float>(data)[i] = x;
  return x;
}

}  // namespace kvc::KVC_DEVICE
