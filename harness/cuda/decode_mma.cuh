// decode_mma: what decode_simt computes, on tensor cores. Up to 16 query heads of a KV head are the rows of m16n8k16
// products, so codes are widened once for all of them.
//
// Reads     as decode_simt; K by up to 128 bits a lane (4 bits, head_dim 128: a token's row is 4 lanes), V by 64
// Grid      (splits, rows), 128 threads; each warp takes 16 of a tile's 64 tokens and joins the others at the end
// alone,
//           so there is no barrier in the loop
// Fragments codes go from global memory to registers in the order they are stored in (fragments.cuh): no shared memory,
//           no shuffles but for the largest score. V's words of two tokens are interleaved by PRMT, two a word pair
// Softmax   running, each warp its own; sums are rescaled only where a largest score grew
// Rounds    K, V and weights to fp16 (bf16 for a cache of bf16) before products, sums in fp32
// Shared    4 kHeads (kDim + 8) bytes, after the loop
// Serves    axis channels (groups of 32 channels and more) and, of K, axis tokens (groups of 16 tokens and more);
//           head_dim 64, 96, 128, 256 where lanes share whole words
// Ideas     flash-decoding; TurboMind (query heads of a group fill the tile); BitDecoding (operands from packed rows)
#pragma once

#include "cuda/fragments.cuh"

namespace kvc::KVC_DEVICE {

// One warp's state: the query, and the running sums of its tokens.
template <class T, class KFormat, class VFormat, int kHeads, int kDim>
struct WarpDecode {
  static_assert(kHeads == 8 || kHeads == 16);
  static_assert(VFormat::kBits == 16 || VFormat::kAxis == Axis::channels, "V along tokens: decode_simt");
  static constexpr int kHalves = kHeads / 8;  // of the product's 16 rows
  using KShare = Share<KFormat, kDim, 4>;
  using VShare = Share<VFormat, kDim, 8>;

  unsigned query[kDim / 16][4];
  float sums[kDim / 8][4] = {};
  float largest[kHalves], total[kHalves] = {};
  int k_groups = 0, k_group[KShare::kChunks] = {};  // of a token, and that of each chunk: divided once
  int v_groups = 0, v_group[VShare::kChunks] = {};
  int group, member;  // lane / 4: a token of K, a chunk of V's channels; lane % 4: a chunk of K's, tokens of V

  // The channel of the first number of pair p that a lane of this `member` reads of K.
  __device__ static constexpr int k_channel(int member, int p) {
    constexpr int kPairs = KFormat::kCodes / 2;
    return KShare::channel(member, p / kPairs) + p % kPairs;
  }

  __device__ __forceinline__ void find_groups(const DecodeArguments<T>& a, int lane) {
    group = lane / 4, member = lane % 4;
    if constexpr (KFormat::kBits < 16 && KFormat::kAxis == Axis::channels) {
      k_groups = kDim / a.k.group_size;
      for (int c = 0; c < KShare::kChunks; ++c) {
        k_group[c] = KShare::channel(member, c * KShare::kVector) / a.k.group_size;
      }
    }
    if constexpr (VFormat::kBits < 16) {
      v_groups = kDim / a.v.group_size;
      for (int c = 0; c < VShare::kChunks; ++c) {
        v_group[c] = VShare::channel(group, c * VShare::kVector) / a.v.group_size;
      }
    }
  }

  __device__ __forceinline__ void read_query(gmem_ptr<const T> q, int n_heads) {
#pragma unroll
    for (int h = 0; h < kHalves; ++h) largest[h] = kNothing;
#pragma unroll
    for (int p = 0; p < kDim / 8; ++p) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        float low = 0.0f, high = 0.0f;
        if (h < kHalves && group + 8 * h < n_heads) {
          const int at = (group + 8 * h) * kDim + k_channel(member, p);
          const T a = q[at], b = q[at + KFormat::kCodes / 2];
          low = to_float(a), high = to_float(b);
        }
        query[p / 2][p % 2 * 2 + h] = pack<T>(low, high);
      }
    }
  }

  // Scores of eight tokens; number(p): pair p of the lane's channels of token `group`.
  template <class Number>
  __device__ __forceinline__ void score(float (&to)[4], const Number& number) {
#pragma unroll
    for (int p = 0; p < kDim / 8; p += 2) {
      const unsigned operand[2] = {number(p), number(p + 1)};
      multiply<T>(to, query[p / 2], operand);
    }
  }

  // Scores [2][4] -> weights as the left operand of the next product. n: tokens of the 16 that there are.
  __device__ __forceinline__ void soften(float (&scores)[2][4], int n, float scale, unsigned (&weights)[4]) {
    float before[kHalves];
    bool grew = false;
#pragma unroll
    for (int h = 0; h < kHalves; ++h) {
      float now = largest[h];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float& s = scores[i / 2][2 * h + i % 2];
        s = 8 * (i / 2) + 2 * member + i % 2 < n ? s * scale : kNothing;
        now = fmaxf(now, s);
      }
      now = fmaxf(now, __shfl_xor_sync(0xffffffffu, now, 1));
      now = fmaxf(now, __shfl_xor_sync(0xffffffffu, now, 2));
      before[h] = exp2_approx(largest[h] - now);
      grew = grew || now > largest[h];
      largest[h] = now;
    }
    if (__any_sync(0xffffffffu, grew)) {
#pragma unroll
      for (int h = 0; h < kHalves; ++h) {
        total[h] *= before[h];
#pragma unroll
        for (int c = 0; c < kDim / 8; ++c) sums[c][2 * h] *= before[h], sums[c][2 * h + 1] *= before[h];
      }
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        weights[2 * i + h] = 0;
        if (h >= kHalves) continue;
        const float a = exp2_approx(scores[i][2 * h] - largest[h]), b = exp2_approx(scores[i][2 * h + 1] - largest[h]);
        total[h] += a + b;
        weights[2 * i + h] = pack<T>(a, b);
      }
    }
  }

  // Adds weights x V; number(c, i): of the lane's channel c, tokens 2 member and 2 member + 1; i = 1: both + 8.
  template <class Number>
  __device__ __forceinline__ void add(const unsigned (&weights)[4], const Number& number) {
#pragma unroll
    for (int c = 0; c < kDim / 8; ++c) {
      const unsigned operand[2] = {number(c, 0), number(c, 1)};
      multiply<T>(sums[c], weights, operand);
    }
  }
  __device__ static constexpr int v_channel(int group, int c) {
    return VShare::channel(group, c / VFormat::kCodes) + c % VFormat::kCodes;
  }

  // The 16 tokens of codes from `first` of a page on; of them n are there.
  __device__ __forceinline__ void take_codes(const DecodeArguments<T>& a, int page, int first, int n) {
    const int64_t at = (static_cast<int64_t>(page) << a.page_shift) + first;
    unsigned k_words[2][KShare::kWords], v_words[4][VShare::kWords];
    int64_t k_token[2], v_token[4];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      k_token[i] = at + min(8 * i + group, n - 1);
      load_words<KShare>(a.k.rows + k_token[i] * (kDim / KFormat::kCodes), member, 4, k_words[i]);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      v_token[i] = at + min(8 * (i / 2) + 2 * member + i % 2, n - 1);
      load_words<VShare>(a.v.rows + v_token[i] * (kDim / VFormat::kCodes), group, 8, v_words[i]);
    }
    float scores[2][4] = {};
    unsigned weights[4];
    score_codes(a.k, at, k_token, k_words, scores);
    soften(scores, n, a.scale, weights);
    add_codes(a.v, v_token, v_words, weights);
  }

  __device__ __forceinline__ void score_codes(const Side<T>& k, int64_t at, const int64_t (&token)[2],
                                              const unsigned (&words)[2][KShare::kWords], float (&scores)[2][4]) {
    constexpr int kPairs = KFormat::kCodes / 2, kSides = KFormat::kAxis == Axis::tokens ? kDim / 8 : KShare::kChunks;
    SidePair sides[kSides] = {};
    if constexpr (KFormat::kBits < 16 && KFormat::kAxis == Axis::tokens) {
#pragma unroll
      for (int p = 0; p < kSides; ++p) {
        const int64_t channel = (at >> (31 - __clz(k.group_size))) * kDim + k_channel(member, p);
        sides[p] = side_pair<KFormat>(k.sides, channel, channel + kPairs);
      }
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if constexpr (KFormat::kBits < 16 && KFormat::kAxis == Axis::channels) {
#pragma unroll
        for (int c = 0; c < kSides; ++c) {
          const int64_t group = token[i] * k_groups + k_group[c];
          sides[c] = side_pair<KFormat>(k.sides, group, group);
        }
      }
      score(scores[i], [&](int p) {
        return number_pair<KFormat>(words[i][p / kPairs], p % kPairs, sides[p * kSides / (kDim / 8)]);
      });
    }
  }

  __device__ __forceinline__ void add_codes(const Side<T>& v, const int64_t (&token)[4],
                                            const unsigned (&words)[4][VShare::kWords], const unsigned (&weights)[4]) {
    constexpr int kPairs = VFormat::kCodes / 2;
    SidePair sides[2][VShare::kChunks] = {};
    if constexpr (VFormat::kBits < 16) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
#pragma unroll
        for (int c = 0; c < VShare::kChunks; ++c) {
          sides[i][c] = side_pair<VFormat>(v.sides, token[2 * i] * v_groups + v_group[c],
                                           token[2 * i + 1] * v_groups + v_group[c]);
        }
      }
    }
    add(weights, [&](int c, int i) {
      const int w = c / VFormat::kCodes, code = c % VFormat::kCodes;
      const unsigned both = prmt(words[2 * i][w], words[2 * i + 1][w], code < kPairs ? 0x5410u : 0x7632u);
      return number_pair<VFormat>(both, code % kPairs, sides[i][w / VShare::kVector]);
    });
  }

  // The 16 tokens of the window from `first` on: the same channels, number by number, as a window is short.
  __device__ __forceinline__ void take_window(const DecodeArguments<T>& a, int64_t first, int n) {
    float scores[2][4] = {};
    unsigned weights[4];
    const auto pair = [](gmem_ptr<const T> from, int64_t i, int64_t j) {
      const T x = from[i], y = from[j];
      return pack<T>(to_float(x), to_float(y));
    };
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int64_t token = (first + min(8 * i + group, n - 1)) * kDim;
      score(scores[i], [&](int p) {
        const int64_t at = token + k_channel(member, p);
        return pair(a.k.window, at, at + KFormat::kCodes / 2);
      });
    }
    soften(scores, n, a.scale, weights);
    add(weights, [&](int c, int i) {
      const int channel = v_channel(group, c), token = 8 * i + 2 * member;
      return pair(a.v.window, (first + min(token, n - 1)) * kDim + channel,
                  (first + min(token + 1, n - 1)) * kDim + channel);
    });
  }
};

// The block's four warps' sums -> one, in the order of warps, to global memory.
template <class Warp, class T, int kHeads, int kDim>
__device__ __forceinline__ void join_warps(Warp& mine, const DecodeArguments<T>& a, int warp) {
  KVC_SHARED(float, together, kHeads* kDim);
  KVC_SHARED(float, largest, 4 * kHeads);
  KVC_SHARED(float, total, 4 * kHeads);
  float factor[Warp::kHalves];
#pragma unroll
  for (int h = 0; h < Warp::kHalves; ++h) {
    float sum = mine.total[h] + __shfl_xor_sync(0xffffffffu, mine.total[h], 1);
    sum += __shfl_xor_sync(0xffffffffu, sum, 2);
    if (mine.member == 0) {
      largest[warp * kHeads + 8 * h + mine.group] = mine.largest[h];
      total[warp * kHeads + 8 * h + mine.group] = sum;
    }
  }
  __syncthreads();
#pragma unroll
  for (int h = 0; h < Warp::kHalves; ++h) {
    float most = kNothing;
    for (int w = 0; w < 4; ++w) {
      const float x = largest[w * kHeads + 8 * h + mine.group];
      most = fmaxf(most, x);
    }
    factor[h] = exp2_approx(mine.largest[h] - most);
  }
  for (int turn = 0; turn < 4; ++turn) {
    if (warp == turn) {
#pragma unroll
      for (int c = 0; c < kDim / 8; ++c) {
#pragma unroll
        for (int i = 0; i < 2 * Warp::kHalves; ++i) {
          // Column 2 member + i % 2 of a product is the channel that the lane of this `group` has read.
          const int at = (8 * (i / 2) + mine.group) * kDim + Warp::v_channel(2 * mine.member + i % 2, c);
          const float before = turn == 0 ? 0.0f : static_cast<float>(together[at]);
          together[at] = before + mine.sums[c][i] * factor[i / 2];
        }
      }
    }
    __syncthreads();
  }
  const int64_t first = (static_cast<int64_t>(blockIdx.y) * gridDim.x + blockIdx.x) * a.n_heads;
  for (int i = threadIdx.x; i < a.n_heads * kDim; i += kThreads) {
    const float sum = together[i];
    a.sums[first * kDim + i] = sum;
  }
  if (threadIdx.x < static_cast<unsigned>(a.n_heads)) {
    float most = kNothing, all = 0.0f;
    for (int w = 0; w < 4; ++w) {
      const float x = largest[w * kHeads + threadIdx.x];
      most = fmaxf(most, x);
    }
    for (int w = 0; w < 4; ++w) {
      const float x = largest[w * kHeads + threadIdx.x], n = total[w * kHeads + threadIdx.x];
      all += exp2_approx(x - most) * n;
    }
    a.norms[first + threadIdx.x] = make_float2(most, all);
  }
}

template <class T, class KFormat, class VFormat, int kHeads, int kDim>
__global__ void __launch_bounds__(kThreads, kDim > 128 || KFormat::kBits == 16 ? 2 : 3)
    decode_mma(DecodeArguments<T> a) {
  const int row = blockIdx.y, warp = threadIdx.x / 32;
  const int n_coded = a.n_coded[row], n_window = a.n_window[row];
  const gmem_ptr<const int> pages = a.pages + static_cast<int64_t>(row) * a.pages_a_row;
  WarpDecode<T, KFormat, VFormat, kHeads, kDim> mine;
  mine.find_groups(a, threadIdx.x % 32);
  mine.read_query(a.q + static_cast<int64_t>(row) * a.n_heads * kDim, a.n_heads);
  const int first_tile = static_cast<int>(blockIdx.x) * a.tiles_a_split, coded_tiles = tiles_of(n_coded);
  const int last_tile = min(first_tile + a.tiles_a_split, coded_tiles + tiles_of(n_window));
  for (int tile = first_tile; tile < min(last_tile, coded_tiles); ++tile) {
    const int first = tile * kTile + 16 * warp, n = min(n_coded - first, 16);
    if (n <= 0) break;
    const int page = pages[first >> a.page_shift];
    mine.take_codes(a, page, first & ((1 << a.page_shift) - 1), n);
  }
  for (int tile = max(first_tile, coded_tiles); tile < last_tile; ++tile) {
    const int first = (tile - coded_tiles) * kTile + 16 * warp, n = min(n_window - first, 16);
    if (n > 0) mine.take_window(a, static_cast<int64_t>(row) * a.window_tokens + first, n);
  }
  join_warps<WarpDecode<T, KFormat, VFormat, kHeads, kDim>, T, kHeads, kDim>(mine, a, warp);
}

}  // namespace kvc::KVC_DEVICE
