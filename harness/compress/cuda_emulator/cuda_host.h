#pragma once
// CUDA C++ for g++: what device.cuh promises, on the CPU. Each thread is a fiber; what a kernel does wrong ends it with
// a Failure that says which thread did it, and where. docs/cuda.md, "Kernels run on the CPU", says what this cannot
// find.

#include <tuple>

#include "cuda_emulator/arithmetic.h"
#include "cuda_emulator/block.h"
#include "cuda_emulator/matrices.h"
#include "cuda_emulator/narrow_floats.h"
#include "cuda_emulator/pointers.h"
#include "cuda_emulator/vectors.h"
#include "cuda_emulator/warp.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __grid_constant__
#define __launch_bounds__(...)
#define __align__(bytes) alignas(bytes)
#define __constant__ static const

#define KVC_RESTRICT
#define KVC_GRID_CONSTANT(type, name) const type& name
#define KVC_SHARED(type, name, count)                                                             \
  const auto name = ::kvc::cuda_emulated::shared_array<type>(::kvc::cuda_emulated::static_shared( \
      #name, sizeof(type) * static_cast<std::size_t>(count), alignof(type), ::std::source_location::current()))
#define KVC_DYNAMIC_SHARED(name)                                       \
  const auto name = ::kvc::cuda_emulated::shared_array<unsigned char>( \
      ::kvc::cuda_emulated::dynamic_shared(#name, ::std::source_location::current()))
#define KVC_LAUNCH(kernel, grid, block, shared_bytes, stream, ...) \
  ::kvc::cuda_emulated::launch(#kernel, kernel, grid, block, shared_bytes, stream __VA_OPT__(, ) __VA_ARGS__)

namespace kvc::cuda_emulated {

using cudaStream_t = struct CUstream_st*;  // that of nvcc; kernels are over when their launch returns

template <class... Parameters, class... Arguments>
void launch(const char* name, void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared_bytes,
            cudaStream_t stream, Arguments&&... arguments) {
  const std::tuple<Parameters...> values(static_cast<Parameters>(arguments)...);
  run_grid(name, grid, block, shared_bytes, [&] { std::apply(kernel, values); });
}

}  // namespace kvc::cuda_emulated
