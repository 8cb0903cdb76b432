// encode_pages: 16-bit tokens -> codes, scales and zeros in their pages (decode_cache.h), as a window is flushed.
//
// Reads     each number twice (the second time from a cache), writes a page's bytes once
// Grid      (runs of tokens, rows), 128 threads; a run is 32 tokens, of axis tokens a group
// Rounds    as the CPU does (kernels/quantize_groups.h), to the same bits: scale and zero to fp16 first, codes from
// these Shared    16 kDim bytes; a thread takes a group, then, behind a barrier, a word Numbers have to be finite, as
// scales have to be in fp16.
#pragma once

#include "cuda/decode.cuh"

namespace kvc::KVC_DEVICE {

template <class T>
struct EncodeArguments {
  gmem_ptr<const T> from;       // [n_rows, n_tokens, head_dim]
  gmem_ptr<const int> n_coded;  // [n_rows] tokens in pages already; of axis tokens whole groups
  gmem_ptr<const int> pages;    // [n_rows, pages_a_row]
  gmem_ptr<unsigned> rows;
  gmem_ptr<__half> sides;
  int n_tokens, pages_a_row, page_shift, group_size;
};

__device__ __forceinline__ float clamp(float x, float least, float most) { return fminf(fmaxf(x, least), most); }

// Scale and zero of a group of x[i * step], rounded to fp16; symmetric: zero is 0.
template <class Format, class T>
__device__ __forceinline__ float2 find_sides(gmem_ptr<const T> x, int n, int step) {
  float low = 0.0f, high = 0.0f;
  for (int i = 0; i < n; ++i) {
    const T given = x[i * step];
    const float number = to_float(given);
    low = i == 0 ? number : fminf(low, number);
    high = i == 0 ? number : fmaxf(high, number);
  }
  if constexpr (Format::kSymmetric) {
    const float top = fmaxf(-low, high);
    return make_float2(to_float(__float2half_rn(top == 0.0f ? 0.0f : fmaxf(top, 1e-5f) / Format::kCentre)), 0.0f);
  } else {
    constexpr float kLevels = static_cast<float>((1 << Format::kBits) - 1);
    return make_float2(to_float(__float2half_rn((high - low) / kLevels)), to_float(__float2half_rn(low)));
  }
}

template <class Format>
__device__ __forceinline__ unsigned encode(float x, float2 sides) {
  constexpr float kLevels = static_cast<float>((1 << Format::kBits) - 1), kCentre = Format::kCentre;
  if (sides.x == 0.0f) return Format::kCentre;
  if constexpr (Format::kSymmetric) {
    return static_cast<unsigned>(__float2int_rn(clamp(x / sides.x, -kCentre, kCentre)) + Format::kCentre);
  } else {
    return static_cast<unsigned>(__float2int_rn(clamp((x - sides.y) / sides.x, 0.0f, kLevels)));
  }
}

template <class T, class Format, int kDim>
__global__ void __launch_bounds__(kThreads) encode_pages(EncodeArguments<T> a) {
  constexpr bool kByToken = Format::kAxis == Axis::channels;
  constexpr int kWords = kDim / Format::kCodes;
  KVC_SHARED(float2, sides, 2 * kDim);  // of axis channels [32, n_groups], with 16 channels a group or more
  const int row = blockIdx.y, run = kByToken ? 32 : a.group_size, first = blockIdx.x * run;
  const int n = min(run, a.n_tokens - first), n_groups = kByToken ? kDim / a.group_size : kDim;
  const gmem_ptr<const T> from = a.from + (static_cast<int64_t>(row) * a.n_tokens + first) * kDim;
  const gmem_ptr<const int> pages = a.pages + static_cast<int64_t>(row) * a.pages_a_row;
  const int coded = a.n_coded[row] + first;  // where the run goes

  for (int i = threadIdx.x; i < (kByToken ? n * n_groups : kDim); i += kThreads) {
    const int token = kByToken ? i / n_groups : 0, group = kByToken ? i % n_groups : i;
    const float2 found = kByToken ? find_sides<Format>(from + token * kDim + group * a.group_size, a.group_size, 1)
                                  : find_sides<Format>(from + group, n, kDim);
    sides[i] = found;
    const int at = coded + token, inside = at & ((1 << a.page_shift) - 1);
    const int64_t page = pages[at >> a.page_shift];
    const int groups_a_page = kByToken ? (1 << a.page_shift) * n_groups : (1 << a.page_shift) / a.group_size * kDim;
    const int64_t to = page * groups_a_page + (kByToken ? inside : inside / a.group_size) * n_groups + group;
    if constexpr (Format::kSymmetric) {
      a.sides[to] = __float2half_rn(found.x);
    } else {
      a.sides[2 * to] = __float2half_rn(found.x);
      a.sides[2 * to + 1] = __float2half_rn(found.y);
    }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < n * kWords; i += kThreads) {
    const int token = i / kWords, word = i % kWords;
    unsigned packed = 0;
#pragma unroll
    for (int c = 0; c < Format::kCodes; ++c) {
      const int channel = word * Format::kCodes + c;
      const T given = from[token * kDim + channel];
      const float2 mine = sides[kByToken ? token * n_groups + channel / a.group_size : channel];
      packed |= encode<Format>(to_float(given), mine) << (c * Format::kBits);
    }
    const int at = coded + token, inside = at & ((1 << a.page_shift) - 1);
    const int64_t page = pages[at >> a.page_shift];
    a.rows[((page << a.page_shift) + inside) * kWords + word] = packed;
  }
}

}  // namespace kvc::KVC_DEVICE
