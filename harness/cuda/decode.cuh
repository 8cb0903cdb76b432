// What the decode kernels share: their arguments, where a token's bytes are, and what becomes of partial results.
// One new token of each sequence attends to its cache. A row is a (sequence, KV head); the query heads that read one KV
// head are computed together, so that codes are read once.
#pragma once

#include "cuda/decode_cache.h"
#include "cuda/device.cuh"

namespace kvc::KVC_DEVICE {

using cuda_cache::Axis;

// One of K and V.
template <class T>
struct Side {
  gmem_ptr<const unsigned> rows;  // the pool's words
  gmem_ptr<const __half> sides;   // the pool's scales and zeros
  gmem_ptr<const T> window;       // [n_rows, window_tokens, head_dim]
  int group_size;                 // divides head_dim or page_tokens
};

// Lengths may differ from row to row. A page holds 2^page_shift tokens, 64 or more.
template <class T>
struct DecodeArguments {
  gmem_ptr<const T> q;  // [n_rows, n_heads, head_dim]
  Side<T> k, v;
  gmem_ptr<const int> n_coded;   // [n_rows] tokens in pages
  gmem_ptr<const int> n_window;  // [n_rows] tokens in the window
  gmem_ptr<const int> pages;     // [n_rows, pages_a_row]: numbers of pages in the pools, the same for K and V
  gmem_ptr<float> sums;          // [n_rows, n_splits, n_heads, head_dim]: sum of e^(s - m) v
  gmem_ptr<float2> norms;        // [n_rows, n_splits, n_heads]: m in powers of 2, sum of e^(s - m)
  int n_heads, pages_a_row, page_shift, window_tokens, tiles_a_split;
  float scale;  // of scores, times log2(e)
};

constexpr int kTile = 64;  // tokens; a tile lies in one page or in the window
constexpr int kThreads = 128;
constexpr float kNothing = -1e30f;  // a maximum of no scores: finite, so that differences are numbers

struct TileRange {
  int first, n;  // tokens of the part that the tile lies in
  bool in_window;
};

__device__ __forceinline__ int tiles_of(int n_tokens) { return (n_tokens + kTile - 1) / kTile; }

__device__ __forceinline__ TileRange tile_range(int tile, int n_coded, int n_window) {
  const int coded_tiles = tiles_of(n_coded);
  const bool in_window = tile >= coded_tiles;
  const int first = (in_window ? tile - coded_tiles : tile) * kTile;
  const int left = (in_window ? n_window : n_coded) - first;
  return {first, left < kTile ? left : kTile, in_window};
}

__device__ __forceinline__ float to_float(__half x) { return __half2float(x); }
__device__ __forceinline__ float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ __forceinline__ void from_float(float x, __half& to) { to = __float2half_rn(x); }
__device__ __forceinline__ void from_float(float x, __nv_bfloat16& to) { to = __float2bfloat16_rn(x); }

__device__ __forceinline__ float largest_of_warp(float x) {
  for (int apart = 16; apart > 0; apart /= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, apart));
  return x;
}
__device__ __forceinline__ float sum_of_warp(float x) {
  for (int apart = 16; apart > 0; apart /= 2) x += __shfl_xor_sync(0xffffffffu, x, apart);
  return x;
}

// decode_reduce: the splits' partial results -> out [n_rows, n_heads, head_dim], always added in the order of splits,
// so that the same cache gives the same bits. One block a (row, head), head_dim threads; reads 4 bytes a number of each
// split. Splits without a token have a norm of 0 and are left out; a row without any token gives zeros.
template <class T>
__global__ void decode_reduce(gmem_ptr<const float> sums, gmem_ptr<const float2> norms, gmem_ptr<T> out, int n_splits,
                              int n_heads, int head_dim) {
  const int row = blockIdx.x / n_heads, head = blockIdx.x % n_heads;
  const int first = row * n_splits * n_heads + head;
  float largest = kNothing;
  for (int i = 0; i < n_splits; ++i) {
    const float2 norm = norms[first + i * n_heads];
    if (norm.y > 0.0f) largest = fmaxf(largest, norm.x);
  }
  float sum = 0.0f, total = 0.0f;
  for (int i = 0; i < n_splits; ++i) {
    const int at = first + i * n_heads;
    const float2 norm = norms[at];
    if (!(norm.y > 0.0f)) continue;
    const float weight = exp2_approx(norm.x - largest);
    const float part = sums[static_cast<int64_t>(at) * head_dim + threadIdx.x];
    total += weight * norm.y;
    sum += weight * part;
  }
  T number;
  from_float(total > 0.0f ? sum / total : 0.0f, number);
  out[static_cast<int64_t>(blockIdx.x) * head_dim + threadIdx.x] = number;
}

}  // namespace kvc::KVC_DEVICE
