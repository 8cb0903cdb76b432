#pragma once
// What a kernel includes, the same for two compilers: nvcc, for GPUs from sm_80 on, and g++, which makes a program of
// it that runs each thread as a fiber on the CPU and checks what it does (cuda_emulator/cuda_host.h, docs/cuda.md). A
// kernel for both
// - stands in namespace kvc::KVC_DEVICE, which is another one for each compiler: one program can hold both
// - takes gmem_ptr<T> for global and gets smem_ptr<T> for shared memory: pointers under nvcc, checked ones under g++
// - declares KVC_SHARED(float, sums, 32) or KVC_DYNAMIC_SHARED(bytes) in place of __shared__
// - reads shared memory by `T value = p[i];`, not by `auto` and not by p[i].x
// - reads as another type by pointer_cast<const uint4>(p)[i], and pairs' bits by as_bits, as_half2, as_bfloat162
// - writes no asm: the functions below are what it may use of PTX
// - takes what is large by KVC_GRID_CONSTANT(Table, parts): read where the launch put it, by any index, never copied
// - is started by KVC_LAUNCH((kernel<128, 4>), grid, block, shared_bytes, stream, checked(keys, count), ...)

#ifndef __CUDACC__

#define KVC_DEVICE cuda_emulated
#include "cuda_emulator/cuda_host.h"

#else

#define KVC_DEVICE cuda
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

#define KVC_RESTRICT __restrict__
#define KVC_GRID_CONSTANT(type, name) const __grid_constant__ type name
// An array of `count` elements that the threads of a block share; its first content is not defined.
#define KVC_SHARED(type, name, count) __shared__ type name[count]
// The bytes that KVC_LAUNCH asked for, from an address that 16 divides.
#define KVC_DYNAMIC_SHARED(name) extern __shared__ __align__(16) unsigned char name[]
// Starts a kernel (in parentheses where its name holds a comma); throws std::runtime_error where the driver refuses.
#define KVC_LAUNCH(kernel, grid, block, shared_bytes, stream, ...) \
  ::kvc::cuda::launch(#kernel, kernel, grid, block, shared_bytes, stream __VA_OPT__(, ) __VA_ARGS__)

namespace kvc::cuda {

template <class T>
using gmem_ptr = T*;
template <class T>
using smem_ptr = T*;

// `count` elements from `pointer` on, which is what a kernel may touch of them.
template <class T>
T* checked(T* pointer, std::size_t count) {
  return pointer;
}

template <class To, class From>
__device__ __forceinline__ To* pointer_cast(From* pointer) {
  return reinterpret_cast<To*>(pointer);
}

template <class... Parameters, class... Arguments>
void launch(const char* name, void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared_bytes,
            cudaStream_t stream, Arguments&&... arguments) {
  cudaError_t error = cudaSuccess;
  if (shared_bytes > 48 * 1024) {  // more has to be asked for
    error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes));
  }
  if (error == cudaSuccess) {
    cudaLaunchConfig_t config{};
    config.gridDim = grid;
    config.blockDim = block;
    config.dynamicSmemBytes = shared_bytes;
    config.stream = stream;
    error = cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...);
  }
  if (error != cudaSuccess) {
    throw std::runtime_error(std::string(name) + ": " + cudaGetErrorString(error));
  }
}

__device__ __forceinline__ unsigned as_bits(__half2 pair) { return *reinterpret_cast<unsigned*>(&pair); }
__device__ __forceinline__ unsigned as_bits(__nv_bfloat162 pair) { return *reinterpret_cast<unsigned*>(&pair); }
__device__ __forceinline__ __half2 as_half2(unsigned bits) { return *reinterpret_cast<__half2*>(&bits); }
__device__ __forceinline__ __nv_bfloat162 as_bfloat162(unsigned bits) {
  return *reinterpret_cast<__nv_bfloat162*>(&bits);
}

// Products of a warp's matrices, added to `sum`. Lane l holds, with g = l / 4 and t = l % 4:
// - a [16, 16]: a[0] and a[1] rows g and g + 8 of columns 2 t, 2 t + 1; a[2] and a[3] the same rows of 2 t + 8, 2 t + 9
// - b [16, 8]: b[0] rows 2 t, 2 t + 1 of column g; b[1] rows 2 t + 8, 2 t + 9
// - sum [16, 8]: sum[0] and sum[1] row g of columns 2 t, 2 t + 1; sum[2] and sum[3] row g + 8
__device__ __forceinline__ void mma_f16(float (&sum)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
__device__ __forceinline__ void mma_bf16(float (&sum)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
// Of signed bytes: a [16, 32] and b [32, 8], four columns (4 t to 4 t + 3, and 16 on) where those of 16 bits hold two.
__device__ __forceinline__ void mma_s8(int (&sum)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+r"(sum[0]), "+r"(sum[1]), "+r"(sum[2]), "+r"(sum[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Count (1, 2, 4) matrices [8, 8] of 16 bits: lane l gives the address (16 divides it) of row l % 8 of matrix l / 8,
// and gets columns 2 t, 2 t + 1 of row g of each; `ldmatrix_trans`: rows 2 t, 2 t + 1 of column g.
template <int Count, class T>
__device__ __forceinline__ void ldmatrix(unsigned (&to)[Count], T* row) {
  static_assert(Count == 1 || Count == 2 || Count == 4);
  const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(row));
  if constexpr (Count == 1) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(to[0]) : "r"(address) : "memory");
  } else if constexpr (Count == 2) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];"
                 : "=r"(to[0]), "=r"(to[1])
                 : "r"(address)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address)
                 : "memory");
  }
}
template <int Count, class T>
__device__ __forceinline__ void ldmatrix_trans(unsigned (&to)[Count], T* row) {
  static_assert(Count == 1 || Count == 2 || Count == 4);
  const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(row));
  if constexpr (Count == 1) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];" : "=r"(to[0]) : "r"(address) : "memory");
  } else if constexpr (Count == 2) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
                 : "=r"(to[0]), "=r"(to[1])
                 : "r"(address)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address)
                 : "memory");
  }
}

// An [8, 8] matrix of 16 bits transposed: a lane's columns 2 t, 2 t + 1 of row g become rows 2 t, 2 t + 1 of column g.
__device__ __forceinline__ unsigned movmatrix_trans(unsigned pair) {
  unsigned result;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(result) : "r"(pair));
  return result;
}

// Bytes (4, 8, 16, which divide both addresses) that are in shared memory once their group was waited for by the thread
// that asked for them, and for other threads after a barrier behind that. Of them only the first `filled` are read,
// zeros follow.
template <int Bytes, class To, class From>
__device__ __forceinline__ void cp_async(To* to, From* from, int filled = Bytes) {
  static_assert(Bytes == 4 || Bytes == 8 || Bytes == 16);
  const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(to));
  if constexpr (Bytes == 16) {  // past the first level of cache
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from), "r"(filled) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(address), "l"(from), "n"(Bytes), "r"(filled)
                 : "memory");
  }
}
__device__ __forceinline__ void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Until at most `Left` of this thread's newest groups are under way.
template <int Left>
__device__ __forceinline__ void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Left) : "memory");
}

// Any function of three bits, on 32 at once: Table is what it gives for a = 0xF0, b = 0xCC, c = 0xAA.
template <int Table>
__device__ __forceinline__ unsigned lop3(unsigned a, unsigned b, unsigned c) {
  unsigned result;
  asm("lop3.b32 %0, %1, %2, %3, %4;" : "=r"(result) : "r"(a), "r"(b), "r"(c), "n"(Table));
  return result;
}
// Four of the eight bytes of a (0 to 3) and b (4 to 7), one a nibble of `selector`; its bit 3 asks for the byte's sign.
__device__ __forceinline__ unsigned prmt(unsigned a, unsigned b, unsigned selector) {
  unsigned result;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(selector));
  return result;
}
// 2^x to 2 units in the last place; what is no normal number becomes 0.
__device__ __forceinline__ float exp2_approx(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}
// A barrier for `threads` threads of whole warps: number 1 to 15, since 0 is that of __syncthreads.
__device__ __forceinline__ void named_barrier(int number, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

}  // namespace kvc::cuda

#endif
