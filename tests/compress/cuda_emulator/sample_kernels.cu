#include "sample_kernels.h"

namespace kvc::KVC_DEVICE {
namespace {

// sums[block] = sum of in[block * n .. block * n + n): shuffles in each warp, then one warp over their sums.
__global__ void block_sums_kernel(gmem_ptr<const float> in, gmem_ptr<float> sums, int n) {
  KVC_SHARED(float, of_warps, 32);
  float sum = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    sum += in[blockIdx.x * n + i];
  }
  for (int by = 16; by > 0; by /= 2) {
    sum += __shfl_xor_sync(0xFFFFFFFFu, sum, by);
  }
  if (threadIdx.x % 32 == 0) {
    of_warps[threadIdx.x / 32] = sum;
  }
  __syncthreads();
  if (threadIdx.x < 32) {
    sum = threadIdx.x < blockDim.x / 32 ? of_warps[threadIdx.x] : 0.0f;
    for (int by = 16; by > 0; by /= 2) {
      sum += __shfl_down_sync(0xFFFFFFFFu, sum, by);
    }
    if (threadIdx.x == 0) {
      sums[blockIdx.x] = sum;
    }
  }
}

// Inclusive sums of 32 numbers.
__global__ void warp_scan_kernel(gmem_ptr<const int> in, gmem_ptr<int> out) {
  const int lane = threadIdx.x;
  int sum = in[lane];
  for (int by = 1; by < 32; by *= 2) {
    const int before = __shfl_up_sync(0xFFFFFFFFu, sum, by);
    sum += lane >= by ? before : 0;
  }
  out[lane] = sum;
}

// counts: [0] of threads whose number is odd, [1] whether all are, [2] whether any is, then a ballot of each warp.
__global__ void block_votes_kernel(gmem_ptr<const int> in, gmem_ptr<int> counts) {
  const int odd = in[threadIdx.x] & 1;
  const int count = __syncthreads_count(odd);
  const int all = __syncthreads_and(odd);
  const int any = __syncthreads_or(odd);
  const unsigned ballot = __ballot_sync(0xFFFFFFFFu, odd);
  const unsigned alike = __match_any_sync(0xFFFFFFFFu, odd);
  if (threadIdx.x == 0) {
    counts[0] = count;
    counts[1] = all;
    counts[2] = any;
  }
  if (threadIdx.x % 32 == 0) {
    counts[3 + threadIdx.x / 32] = static_cast<int>(odd ? ballot & alike : ballot | ~alike);
  }
}

// out[i] = sum over tiles of in[tile, (i + 1) % 128]: two buffers, one of which is filled while the other is read.
__global__ void pipelined_sum_kernel(gmem_ptr<const float> in, gmem_ptr<float> out, int tiles) {
  KVC_DYNAMIC_SHARED(bytes);
  smem_ptr<float> buffers = pointer_cast<float>(bytes);
  const int i = threadIdx.x;
  cp_async<4>(buffers + i, in + i);
  cp_async_commit();
  float sum = 0;
  for (int tile = 0; tile < tiles; ++tile) {
    if (tile + 1 < tiles) {
      cp_async<4>(buffers + (tile + 1) % 2 * 128 + i, in + (tile + 1) * 128 + i);
    }
    cp_async_commit();
    cp_async_wait<1>();
    __syncthreads();
    sum += buffers[tile % 2 * 128 + (i + 1) % 128];
    __syncthreads();
  }
  out[i] = sum;
}

// c [rows, columns] = a [rows, depth] b, with b [depth, columns], or [columns, depth] where it is transposed: a warp
// for 16 rows and 8 columns, 16 of the depth at a time.
template <bool Transposed>
__global__ void matrix_product_kernel(gmem_ptr<const half> a, gmem_ptr<const half> b, gmem_ptr<float> c, int columns,
                                      int depth) {
  KVC_SHARED(uint4, a_bytes, 2 * 32);
  KVC_SHARED(uint4, b_bytes, 2 * 16);
  const int lane = threadIdx.x, row = blockIdx.y * 16, column = blockIdx.x * 8;
  const auto fetch = [&](int step) {
    cp_async<16>(a_bytes + step % 2 * 32 + lane, a + (row + lane / 2) * depth + step * 16 + lane % 2 * 8);
    if (lane < 16) {
      const int from =
          Transposed ? (column + lane / 2) * depth + step * 16 + lane % 2 * 8 : (step * 16 + lane) * columns + column;
      cp_async<16>(b_bytes + step % 2 * 16 + lane, b + from);
    }
    cp_async_commit();
  };
  float sum[4] = {};
  fetch(0);
  for (int step = 0; step < depth / 16; ++step) {
    if (step + 1 < depth / 16) {
      fetch(step + 1);
    } else {
      cp_async_commit();
    }
    cp_async_wait<1>();
    __syncwarp();
    unsigned a_part[4], b_part[2];
    ldmatrix<4>(a_part, a_bytes + step % 2 * 32 + lane % 16 * 2 + lane / 16);
    if constexpr (Transposed) {
      ldmatrix<2>(b_part, b_bytes + step % 2 * 16 + lane % 8 * 2 + lane / 8 % 2);
    } else {
      ldmatrix_trans<2>(b_part, b_bytes + step % 2 * 16 + lane % 16);
    }
    mma_f16(sum, a_part, b_part);
    __syncwarp();
  }
  for (int i = 0; i < 4; ++i) {
    c[(row + lane / 4 + i / 2 * 8) * columns + column + lane % 4 * 2 + i % 2] = sum[i];
  }
}

// counts[bin] = how many of n numbers are bin: atomics on shared memory, then on global memory.
__global__ void histogram_kernel(gmem_ptr<const int> in, gmem_ptr<int> counts, int n, int bins) {
  KVC_DYNAMIC_SHARED(bytes);
  smem_ptr<int> mine = pointer_cast<int>(bytes);
  for (int bin = threadIdx.x; bin < bins; bin += blockDim.x) {
    mine[bin] = 0;
  }
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    atomicAdd(mine + in[i], 1);
  }
  __syncthreads();
  for (int bin = threadIdx.x; bin < bins; bin += blockDim.x) {
    atomicAdd(&counts[bin], mine[bin]);
  }
}

// Warps 2 i and 2 i + 1 exchange their numbers, with a barrier for each pair of warps.
__global__ void named_barriers_kernel(gmem_ptr<const int> in, gmem_ptr<int> out) {
  KVC_SHARED(int, numbers, 128);
  const int i = threadIdx.x;
  numbers[i] = in[i];
  named_barrier(1 + i / 64, 64);
  out[i] = numbers[i ^ 32];
}

}  // namespace

void block_sums(const float* in, float* sums, int per_block, int blocks) {
  KVC_LAUNCH(block_sums_kernel, dim3(blocks), dim3(128), 0, nullptr, checked(in, per_block * blocks),
             checked(sums, blocks), per_block);
}

void warp_scan(const int* in, int* out) {
  KVC_LAUNCH(warp_scan_kernel, dim3(1), dim3(32), 0, nullptr, checked(in, 32), checked(out, 32));
}

void block_votes(const int* in, int* counts, int n) {
  KVC_LAUNCH(block_votes_kernel, dim3(1), dim3(n), 0, nullptr, checked(in, n), checked(counts, 3 + n / 32));
}

void pipelined_sum(const float* in, float* out, int tiles) {
  KVC_LAUNCH(pipelined_sum_kernel, dim3(1), dim3(128), 2 * 128 * sizeof(float), nullptr, checked(in, tiles * 128),
             checked(out, 128), tiles);
}

void matrix_product(const half* a, const half* b, float* c, int rows, int columns, int depth, bool b_transposed) {
  const dim3 grid(columns / 8, rows / 16);
  if (b_transposed) {
    KVC_LAUNCH((matrix_product_kernel<true>), grid, dim3(32), 0, nullptr, checked(a, rows * depth),
               checked(b, columns * depth), checked(c, rows * columns), columns, depth);
  } else {
    KVC_LAUNCH((matrix_product_kernel<false>), grid, dim3(32), 0, nullptr, checked(a, rows * depth),
               checked(b, columns * depth), checked(c, rows * columns), columns, depth);
  }
}

void histogram(const int* in, int* counts, int n, int bins) {
  KVC_LAUNCH(histogram_kernel, dim3(3), dim3(64), bins * sizeof(int), nullptr, checked(in, n), checked(counts, bins), n,
             bins);
}

void pairs_through_named_barriers(const int* in, int* out) {
  KVC_LAUNCH(named_barriers_kernel, dim3(1), dim3(128), 0, nullptr, checked(in, 128), checked(out, 128));
}

}  // namespace kvc::KVC_DEVICE
