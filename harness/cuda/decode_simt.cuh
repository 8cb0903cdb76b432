// decode_simt: attention of one query token a sequence to pages of codes (or of 16 bits) and a 16-bit window, in plain
// fp32. The one to read first; it serves every format, and is what the tuned kernels are tested against.
//
// Reads     each row's codes, scales and window once for up to kHeads query heads (Sizes::bytes_a_token)
// Grid      (splits, rows), 128 threads; a split is tiles_a_split tiles of 64 tokens
// Scores    two threads a token, each every second word of its row: q stands in shared memory and is read by all at
// once Sums      a thread a channel (two of them above 128): weights stand in shared memory, codes come a token after
// another Softmax   running: a warp takes the heads warp, warp + 4, ..; its largest score so far rescales what was
// summed Shared    4 kHeads (kDim + 65) bytes; no tensor cores, no asynchronous copies, three barriers a tile Bound by
// instructions, not by bytes: a code costs an extraction, a conversion and kHeads + 1 multiply-adds
#pragma once

#include <type_traits>

#include "cuda/decode.cuh"

namespace kvc::KVC_DEVICE {

// Where token `token` of a row lies: word 0 of its codes, and its first pair of sides.
template <class Format, int kDim, class T>
struct Rows {
  Side<T> side;
  gmem_ptr<const int> pages;
  int page_shift;

  __device__ __forceinline__ int64_t word(int token) const {
    const int page = pages[token >> page_shift];
    return ((static_cast<int64_t>(page) << page_shift) + inside(token)) * (kDim / Format::kCodes);
  }
  __device__ __forceinline__ int inside(int token) const { return token & ((1 << page_shift) - 1); }
  // Of the group that `channel` of `token` belongs to.
  __device__ __forceinline__ int64_t group(int token, int channel) const {
    const int64_t page = pages[token >> page_shift];
    if constexpr (Format::kAxis == Axis::channels) {
      const int n_groups = kDim / side.group_size;
      return ((page << page_shift) + inside(token)) * n_groups + channel / side.group_size;
    } else {
      const int group_shift = 31 - __clz(side.group_size);  // it divides a power of 2
      return ((page << (page_shift - group_shift)) + (inside(token) >> group_shift)) * kDim + channel;
    }
  }
  __device__ __forceinline__ float2 pair(int64_t group) const {
    if constexpr (Format::kSymmetric) {
      const __half scale = side.sides[group];
      return make_float2(to_float(scale), -Format::kCentre * to_float(scale));
    } else {
      const __half2 both = pointer_cast<const __half2>(side.sides)[group];
      return make_float2(__low2float(both), __high2float(both));
    }
  }
  // Number i of a word of codes, whose first one is of `channel`.
  __device__ __forceinline__ float number(unsigned word, int i, float2 pair) const {
    const unsigned code = (word >> (i * Format::kBits)) & ((1u << Format::kBits) - 1u);
    return fmaf(pair.x, static_cast<float>(code), pair.y);
  }
};

template <class T>
__device__ __forceinline__ float number_of_16_bits(unsigned word, int i) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    return __uint_as_float(i == 0 ? word << 16 : word & 0xffff0000u);  // bf16 is the upper half of a float
  } else {
    const __half2 both = as_half2(word);
    return i == 0 ? __low2float(both) : __high2float(both);
  }
}

// q . (this thread's words of a token's K) for all heads.
template <class Format, int kHeads, int kDim, class T>
__device__ __forceinline__ void score_token(const Rows<Format, kDim, T>& k, smem_ptr<const float> q, int token,
                                            int half, float (&scores)[kHeads]) {
  constexpr int kCodes = Format::kCodes, kWords = kDim / kCodes;
  const int64_t first = k.word(token);
  for (int w = half; w < kWords; w += 2) {
    const unsigned word = k.side.rows[first + w];
    float2 pair = make_float2(1.0f, 0.0f);
    if constexpr (Format::kBits < 16 && Format::kAxis == Axis::channels) pair = k.pair(k.group(token, w * kCodes));
#pragma unroll
    for (int i = 0; i < kCodes; ++i) {
      float number;
      if constexpr (Format::kBits == 16) {
        number = number_of_16_bits<T>(word, i);
      } else {
        if constexpr (Format::kAxis == Axis::tokens) pair = k.pair(k.group(token, w * kCodes + i));
        number = k.number(word, i, pair);
      }
#pragma unroll
      for (int h = 0; h < kHeads; ++h) {
        const float factor = q[h * kDim + w * kCodes + i];
        scores[h] = fmaf(factor, number, scores[h]);
      }
    }
  }
}

template <class Format, int kDim, class T>
__device__ __forceinline__ float number_at(const Rows<Format, kDim, T>& v, int token, int channel) {
  const unsigned word = v.side.rows[v.word(token) + channel / Format::kCodes];
  if constexpr (Format::kBits == 16) {
    return number_of_16_bits<T>(word, channel % 2);
  } else {
    return v.number(word, channel % Format::kCodes, v.pair(v.group(token, channel)));
  }
}

// The tile's scores [kHeads, 64] in shared memory become weights; what was summed before has to be rescaled.
template <int kHeads>
__device__ __forceinline__ void soften(smem_ptr<float> scores, smem_ptr<float> rescale, int warp, int lane,
                                       float (&largest)[(kHeads + 3) / 4], float (&total)[(kHeads + 3) / 4]) {
#pragma unroll
  for (int i = 0; i < (kHeads + 3) / 4; ++i) {
    const int h = warp + 4 * i;
    if (h >= kHeads) break;
    const float a = scores[h * kTile + lane], b = scores[h * kTile + lane + 32];
    const float now = fmaxf(largest[i], largest_of_warp(fmaxf(a, b)));
    const float before = exp2_approx(largest[i] - now);
    const float wa = a > kNothing ? exp2_approx(a - now) : 0.0f, wb = b > kNothing ? exp2_approx(b - now) : 0.0f;
    scores[h * kTile + lane] = wa;
    scores[h * kTile + lane + 32] = wb;
    if (lane == 0) rescale[h] = before;
    total[i] = total[i] * before + sum_of_warp(wa + wb);
    largest[i] = now;
  }
}

template <class T, class KFormat, class VFormat, int kHeads, int kDim>
__global__ void __launch_bounds__(kThreads) decode_simt(DecodeArguments<T> a) {
  constexpr int kChannels = (kDim + kThreads - 1) / kThreads, kMine = (kHeads + 3) / 4;
  KVC_SHARED(float, q, kHeads* kDim);
  KVC_SHARED(float, scores, kHeads* kTile);
  KVC_SHARED(float, rescale, kHeads);
  const int row = blockIdx.y, split = blockIdx.x, thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
  const int n_coded = a.n_coded[row], n_window = a.n_window[row];
  const gmem_ptr<const int> pages = a.pages + static_cast<int64_t>(row) * a.pages_a_row;
  const Rows<KFormat, kDim, T> k{a.k, pages, a.page_shift};
  const Rows<VFormat, kDim, T> v{a.v, pages, a.page_shift};
  const int64_t window = static_cast<int64_t>(row) * a.window_tokens * kDim;

  for (int i = thread; i < kHeads * kDim; i += kThreads) {
    T number;
    from_float(0.0f, number);
    if (i < a.n_heads * kDim) number = a.q[static_cast<int64_t>(row) * a.n_heads * kDim + i];
    q[i] = to_float(number);
  }
  __syncthreads();

  float sums[kChannels][kHeads] = {}, largest[kMine], total[kMine] = {};
  for (int i = 0; i < kMine; ++i) largest[i] = kNothing;
  const int last = min((split + 1) * a.tiles_a_split, tiles_of(n_coded) + tiles_of(n_window));
  for (int tile = split * a.tiles_a_split; tile < last; ++tile) {
    const TileRange range = tile_range(tile, n_coded, n_window);
    const int token = thread / 2, half = thread % 2;
    float mine[kHeads] = {};
    if (token < range.n) {
      if (range.in_window) {
        for (int c = half; c < kDim; c += 2) {
          const T number = a.k.window[window + static_cast<int64_t>(range.first + token) * kDim + c];
          for (int h = 0; h < kHeads; ++h) {
            const float factor = q[h * kDim + c];
            mine[h] = fmaf(factor, to_float(number), mine[h]);
          }
        }
      } else {
        score_token<KFormat, kHeads, kDim>(k, q, range.first + token, half, mine);
      }
    }
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      const float both = mine[h] + __shfl_xor_sync(0xffffffffu, mine[h], 1);
      if (half == 0) scores[h * kTile + token] = token < range.n ? both * a.scale : kNothing;
    }
    __syncthreads();
    soften<kHeads>(scores, rescale, warp, lane, largest, total);
    __syncthreads();
#pragma unroll
    for (int c = 0; c < kChannels; ++c) {
      const int channel = thread + c * kThreads;
      if (channel >= kDim) break;
#pragma unroll
      for (int h = 0; h < kHeads; ++h) {
        const float before = rescale[h];
        sums[c][h] *= before;
      }
      for (int t = 0; t < range.n; ++t) {
        float number;
        if (range.in_window) {
          const T given = a.v.window[window + static_cast<int64_t>(range.first + t) * kDim + channel];
          number = to_float(given);
        } else {
          number = number_at<VFormat, kDim>(v, range.first + t, channel);
        }
#pragma unroll
        for (int h = 0; h < kHeads; ++h) {
          const float weight = scores[h * kTile + t];
          sums[c][h] = fmaf(weight, number, sums[c][h]);
        }
      }
    }
    __syncthreads();
  }

  const int64_t first = (static_cast<int64_t>(row) * gridDim.x + split) * a.n_heads;
#pragma unroll
  for (int c = 0; c < kChannels; ++c) {
    const int channel = thread + c * kThreads;
    if (channel >= kDim) break;
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      if (h < a.n_heads) a.sums[(first + h) * kDim + channel] = sums[c][h];
    }
  }
#pragma unroll
  for (int i = 0; i < kMine; ++i) {
    const int h = warp + 4 * i;
    if (h < a.n_heads && lane == 0) a.norms[first + h] = make_float2(largest[i], total[i]);
  }
}

}  // namespace kvc::KVC_DEVICE
