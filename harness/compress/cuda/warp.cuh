// What kernels share: their blocks' size, numbers of 16 bits as floats, and sums of a warp.
#pragma once

#include "cuda/device.cuh"

namespace kvc::KVC_DEVICE {

constexpr int kThreads = 128;          // of a block
constexpr float kNothing = -1e30f;     // a maximum of no scores: finite, so that differences are numbers
constexpr float kLog2E = 1.44269504f;  // e^x = 2^(kLog2E x)

__device__ __forceinline__ float to_float(__half x) { return __half2float(x); }
__device__ __forceinline__ float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }

__device__ __forceinline__ float sum_of_warp(float x) {
  for (int apart = 16; apart > 0; apart /= 2) x += __shfl_xor_sync(0xffffffffu, x, apart);
  return x;
}

}  // namespace kvc::KVC_DEVICE
