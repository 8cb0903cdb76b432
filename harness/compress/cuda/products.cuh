// Products of queries with a cache's parts as they are held: the plain kernels, for every format and any shape.
//
// score_rows      rows are tokens: a thread a token, four query heads of a KV head at a time, which read a row once;
//                 their queries stand in shared memory, 256 channels at a time
// score_channels  rows are channels, in tiles: a thread a token, neighbours in neighbouring codes of a word
// accumulate_rows a thread a channel: its sum over 512 tokens, whose weights stand in shared memory 128 at a time; the
//                 sums of all parts and runs are added by add_parts, in their order
// score_spread    score_rows where groups lie across tokens, as accumulate_rows<.., true>: a number after another
// *_entries       each entry read once for each query head; who adds to a number is one thread, or one after a barrier
// softmax         a block a query head, three readings of its scores
// Grid            (blocks of the longest part, KV heads, parts times chunks of query heads); a part that is shorter
//                 leaves blocks without work
// Bound by        instructions: a code is a load from shared memory (its level) and two multiply-adds
#pragma once

#include "cuda/numbers.cuh"
#include "cuda/products.h"

namespace kvc::KVC_DEVICE {

using cuda_products::Kind;
using cuda_products::kSplitTokens;

constexpr int kChunk = 256;      // channels of the queries in shared memory
constexpr int kHeadsAtOnce = 4;  // query heads of a KV head that read a number once
constexpr int kTileWords = 16;
constexpr int kMostParts = 32;  // of one launch, whose arguments are passed by value

template <class Part>
struct Table {
  Part of[kMostParts];
};

struct MatrixArgument {
  gmem_ptr<const unsigned char> rows;
  Numbers scale, zero;
  int64_t head_bytes, row_bytes, head_scales;
  Kind kind;
  float centre;
  float levels[16];
  int n_tokens, n_channels, n_groups, group_size;
  bool one_scale;
  int first_token;
  GroupOrder order;  // of spread numbers
};

// The third coordinate of a grid counts parts, and in each the query heads of KV head `blockIdx.y` in fours: those from
// `first` on, `n` of them.
struct HeadsOfBlock {
  int part, first, n;
};
__device__ __forceinline__ HeadsOfBlock heads_of_block(int group) {
  const int chunks = (group + kHeadsAtOnce - 1) / kHeadsAtOnce, chunk = blockIdx.z % chunks;
  const int left = group - chunk * kHeadsAtOnce;
  return {static_cast<int>(blockIdx.z) / chunks, static_cast<int>(blockIdx.y) * group + chunk * kHeadsAtOnce,
          left < kHeadsAtOnce ? left : kHeadsAtOnce};
}

struct ScorePart {
  MatrixArgument k;
  gmem_ptr<const float> q;
  gmem_ptr<float> scores;
  int64_t stride;
  int q_stride;
};

struct AccumulatePart {
  MatrixArgument v;
  gmem_ptr<const float> weights;
  gmem_ptr<float> sums;  // [splits, heads, channels]
  int64_t stride;
  int n_splits;
};

// Number `place` of a row of numbers that begins at byte `row`.
template <int kBits>
__device__ __forceinline__ float number_at(const MatrixArgument& x, smem_ptr<const float> levels, int64_t row,
                                           int place) {
  if constexpr (kBits == 32) {
    return pointer_cast<const float>(x.rows + row)[place];
  } else if constexpr (kBits == 16) {
    const unsigned bits = pointer_cast<const unsigned short>(x.rows + row)[place];
    return x.kind == Kind::f16 ? __low2float(as_half2(bits)) : __uint_as_float(bits << 16);
  } else if constexpr (kBits == 8) {
    const unsigned code = x.rows[row + place];
    return x.kind == Kind::e4m3   ? float_of_e4m3(code)
           : x.kind == Kind::e5m2 ? float_of_e5m2(code)
                                  : static_cast<float>(code) - x.centre;
  } else {
    const auto words = pointer_cast<const unsigned>(x.rows + row);
    const int bit = place * kBits, shift = bit % 32;
    const unsigned word = words[bit / 32];
    unsigned code = word >> shift;
    if constexpr (32 % kBits != 0) {
      const unsigned next = words[(bit + kBits - 1) / 32];
      code = __funnelshift_r(word, next, shift);
    }
    const float level = levels[code & ((1u << kBits) - 1u)];
    return level;
  }
}

// Scale and zero of group `group` of a row of head `head`.
__device__ __forceinline__ float2 scale_zero_at(const MatrixArgument& x, int head, int64_t place) {
  const int64_t at = head * x.head_scales + (x.one_scale ? 0 : place);
  return make_float2(number_of(x.scale, at), x.zero.n == 0 ? 0.0f : number_of(x.zero, at));
}

// A number whose group does not lie in one token.
template <int kBits>
__device__ __forceinline__ float spread_number(const MatrixArgument& x, smem_ptr<const float> levels, int head,
                                               int token, int channel) {
  const int64_t row = static_cast<int64_t>(head) * x.n_tokens + token, entry = row * x.n_channels + channel;
  int64_t group = entry / x.group_size, place = entry % x.group_size;
  if (x.order == GroupOrder::strided) {
    group = entry % x.n_groups, place = entry / x.n_groups;
  } else if (x.order == GroupOrder::rows) {
    group = row / x.group_size * x.n_channels + channel, place = row % x.group_size;
  }
  const float number = number_at<kBits>(x, levels, group * x.row_bytes, static_cast<int>(place));
  const float2 scale_zero = scale_zero_at(x, 0, group);
  return fmaf(scale_zero.x, number, scale_zero.y);
}

__device__ __forceinline__ void load_levels(const MatrixArgument& x, smem_ptr<float> levels) {
  if (threadIdx.x < 16) levels[threadIdx.x] = x.levels[threadIdx.x];
}

// Channels from .. from + kChunk of the block's queries, zeros where there are none; between two barriers.
__device__ __forceinline__ void load_queries(gmem_ptr<const float> q, int stride, HeadsOfBlock heads, int from,
                                             int n_channels, smem_ptr<float> queries) {
  __syncthreads();
  for (int i = threadIdx.x; i < kHeadsAtOnce * kChunk; i += kThreads) {
    const int head = i / kChunk, channel = from + i % kChunk;
    float number = 0.0f;
    if (head < heads.n && channel < n_channels) number = q[static_cast<int64_t>(heads.first + head) * stride + channel];
    queries[i] = number;
  }
  __syncthreads();
}

__device__ __forceinline__ void add_to_scores(gmem_ptr<float> scores, int64_t stride, HeadsOfBlock heads, int token,
                                              const float (&sums)[kHeadsAtOnce]) {
#pragma unroll
  for (int h = 0; h < kHeadsAtOnce; ++h) {
    if (h < heads.n) scores[(heads.first + h) * stride + token] += sums[h];
  }
}

template <int kBits>
__global__ void __launch_bounds__(kThreads, 8) score_rows(KVC_GRID_CONSTANT(Table<ScorePart>, parts), int group) {
  KVC_SHARED(float, queries, kHeadsAtOnce* kChunk);
  KVC_SHARED(float, levels, 16);
  const HeadsOfBlock heads = heads_of_block(group);
  const ScorePart& part = parts.of[heads.part];
  const MatrixArgument& k = part.k;
  if (static_cast<int>(blockIdx.x) * kThreads >= k.n_tokens) return;
  const int token = blockIdx.x * kThreads + threadIdx.x, kv = blockIdx.y;
  const int64_t row = kv * k.head_bytes + token * k.row_bytes;
  if constexpr (kBits < 8) load_levels(k, levels);
  float sums[kHeadsAtOnce] = {};
  for (int from = 0; from < k.n_channels; from += kChunk) {
    load_queries(part.q, part.q_stride, heads, from, k.n_channels, queries);
    if (token >= k.n_tokens) continue;
    const int end = min(from + kChunk, k.n_channels);
    float2 scale_zero = make_float2(1.0f, 0.0f);
    int next = from;  // where a group's scale is read
    for (int c = from; c < end; ++c) {
      if (kBits <= 8 && c == next) {
        const int group_of_c = c / k.group_size;
        scale_zero = scale_zero_at(k, kv, static_cast<int64_t>(token) * k.n_groups + group_of_c);
        next = (group_of_c + 1) * k.group_size;
      }
      float value = number_at<kBits>(k, levels, row, c);
      if constexpr (kBits <= 8) value = fmaf(scale_zero.x, value, scale_zero.y);
#pragma unroll
      for (int h = 0; h < kHeadsAtOnce; ++h) {
        const float factor = queries[h * kChunk + c - from];
        sums[h] = fmaf(factor, value, sums[h]);
      }
    }
  }
  if (token < k.n_tokens) add_to_scores(part.scores, part.stride, heads, token, sums);
}

// Entry `entry` of row `row` among n_rows rows of n entries each, as they stand in tiles.
__device__ __forceinline__ int64_t place_in_tiles(int row, int entry, int n_rows, int n) {
  const int first = entry / kTileWords * kTileWords, width = min(kTileWords, n - first);
  return static_cast<int64_t>(first) * n_rows + static_cast<int64_t>(row) * width + (entry - first);
}

template <int kBits>
__global__ void __launch_bounds__(kThreads, 8) score_channels(KVC_GRID_CONSTANT(Table<ScorePart>, parts), int group) {
  KVC_SHARED(float, queries, kHeadsAtOnce* kChunk);
  KVC_SHARED(float, levels, 16);
  constexpr int kCodes = 32 / kBits;
  const HeadsOfBlock heads = heads_of_block(group);
  const ScorePart& part = parts.of[heads.part];
  const MatrixArgument& k = part.k;
  const int first = k.first_token + static_cast<int>(blockIdx.x) * kThreads;
  if (first >= k.n_tokens) return;
  const int token = first + threadIdx.x, kv = blockIdx.y;
  const int n_words = static_cast<int>(k.row_bytes / 4), group_of_token = token / k.group_size;
  if constexpr (kBits < 8) load_levels(k, levels);
  float sums[kHeadsAtOnce] = {};
  for (int from = 0; from < k.n_channels; from += kChunk) {
    load_queries(part.q, part.q_stride, heads, from, k.n_channels, queries);
    if (token >= k.n_tokens) continue;
    const int end = min(from + kChunk, k.n_channels);
    for (int c = from; c < end; ++c) {
      const int64_t word = place_in_tiles(c, token / kCodes, k.n_channels, n_words);
      const float2 scale_zero = scale_zero_at(k, kv, place_in_tiles(c, group_of_token, k.n_channels, k.n_groups));
      const float number = number_at<kBits>(k, levels, kv * k.head_bytes + word * 4, token % kCodes);
      const float value = fmaf(scale_zero.x, number, scale_zero.y);
#pragma unroll
      for (int h = 0; h < kHeadsAtOnce; ++h) {
        const float factor = queries[h * kChunk + c - from];
        sums[h] = fmaf(factor, value, sums[h]);
      }
    }
  }
  if (token < k.n_tokens) add_to_scores(part.scores, part.stride, heads, token - k.first_token, sums);
}

// blockIdx.x: 128 channels of 512 tokens.
template <int kBits, bool kSpread>
__global__ void __launch_bounds__(kThreads, 8)
    accumulate_rows(KVC_GRID_CONSTANT(Table<AccumulatePart>, parts), int group) {
  KVC_SHARED(float, shares, kHeadsAtOnce* kThreads);
  KVC_SHARED(float, levels, 16);
  const HeadsOfBlock heads = heads_of_block(group);
  const AccumulatePart& part = parts.of[heads.part];
  const MatrixArgument& v = part.v;
  const int kv = blockIdx.y, split = static_cast<int>(blockIdx.x) % part.n_splits;
  const int first_channel = static_cast<int>(blockIdx.x) / part.n_splits * kThreads;
  if (first_channel >= v.n_channels) return;
  const int channel = first_channel + threadIdx.x;
  const int end = min((split + 1) * kSplitTokens, v.n_tokens);
  if constexpr (kBits < 8) load_levels(v, levels);
  float sums[kHeadsAtOnce] = {};
  for (int from = split * kSplitTokens; from < end; from += kThreads) {
    __syncthreads();
    for (int h = 0; h < kHeadsAtOnce; ++h) {
      const int token = from + threadIdx.x;
      float share = 0.0f;
      if (h < heads.n && token < end) share = part.weights[(heads.first + h) * part.stride + token];
      shares[h * kThreads + threadIdx.x] = share;
    }
    __syncthreads();
    if (channel >= v.n_channels) continue;
    const int n = min(kThreads, end - from);
    int64_t row = kv * v.head_bytes + from * v.row_bytes;
    int64_t pair = static_cast<int64_t>(from) * v.n_groups + channel / v.group_size;
#pragma unroll 1
    for (int i = 0; i < n; ++i, row += v.row_bytes, pair += v.n_groups) {
      float value;
      if constexpr (kSpread) {
        value = spread_number<kBits>(v, levels, kv, from + i, channel);
      } else {
        value = number_at<kBits>(v, levels, row, channel);
      }
      if constexpr (kBits <= 8 && !kSpread) {
        const float2 scale_zero = scale_zero_at(v, kv, pair);
        value = fmaf(scale_zero.x, value, scale_zero.y);
      }
#pragma unroll
      for (int h = 0; h < kHeadsAtOnce; ++h) {
        const float share = shares[h * kThreads + i];
        sums[h] = fmaf(share, value, sums[h]);
      }
    }
  }
  if (channel >= v.n_channels) return;
  const int n_heads = gridDim.y * group;
#pragma unroll
  for (int h = 0; h < kHeadsAtOnce; ++h) {
    if (h >= heads.n) continue;
    part.sums[static_cast<int64_t>(split * n_heads + heads.first + h) * v.n_channels + channel] = sums[h];
  }
}

// As score_rows, of groups that lie across tokens.
template <int kBits>
__global__ void __launch_bounds__(kThreads, 8) score_spread(KVC_GRID_CONSTANT(Table<ScorePart>, parts), int group) {
  KVC_SHARED(float, queries, kHeadsAtOnce* kChunk);
  KVC_SHARED(float, levels, 16);
  const HeadsOfBlock heads = heads_of_block(group);
  const ScorePart& part = parts.of[heads.part];
  const MatrixArgument& k = part.k;
  if (static_cast<int>(blockIdx.x) * kThreads >= k.n_tokens) return;
  const int token = blockIdx.x * kThreads + threadIdx.x, kv = blockIdx.y;
  if constexpr (kBits < 8) load_levels(k, levels);
  float sums[kHeadsAtOnce] = {};
  for (int from = 0; from < k.n_channels; from += kChunk) {
    load_queries(part.q, part.q_stride, heads, from, k.n_channels, queries);
    if (token >= k.n_tokens) continue;
#pragma unroll 1
    for (int c = from; c < min(from + kChunk, k.n_channels); ++c) {
      const float value = spread_number<kBits>(k, levels, kv, token, c);
#pragma unroll
      for (int h = 0; h < kHeadsAtOnce; ++h) {
        const float factor = queries[h * kChunk + c - from];
        sums[h] = fmaf(factor, value, sums[h]);
      }
    }
  }
  if (token < k.n_tokens) add_to_scores(part.scores, part.stride, heads, token, sums);
}

struct SumPart {
  gmem_ptr<const float> parts;
  gmem_ptr<float> out;
  int n_parts, n;
};

// blockIdx.y: which sum.
__global__ void __launch_bounds__(kThreads) add_parts(KVC_GRID_CONSTANT(Table<SumPart>, sums)) {
  const SumPart& x = sums.of[blockIdx.y];
  const int i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= x.n) return;
  float sum = 0.0f;
  for (int part = 0; part < x.n_parts; ++part) sum += x.parts[static_cast<int64_t>(part) * x.n + i];
  x.out[i] += sum;
}

struct EntriesArgument {
  Numbers values;
  gmem_ptr<const unsigned char> index;
  bool wide;
  int per_vector, n_vectors, head_dim, group;

  __device__ __forceinline__ int place(int64_t i) const {
    if (wide) return pointer_cast<const unsigned short>(index)[i];
    return index[i];
  }
};

struct EntriesPart {
  EntriesArgument x;
  gmem_ptr<const float> factors;  // queries, or weights
  gmem_ptr<float> sums;           // scores, or the sums of accumulate_*
  int64_t stride;                 // of scores and weights
};

// Vectors are channels: a block a query head (blockIdx.x), whose threads add one channel's entries, all of other
// tokens, at once.
__global__ void __launch_bounds__(kThreads) score_channel_entries(KVC_GRID_CONSTANT(Table<EntriesPart>, parts)) {
  const EntriesPart& part = parts.of[blockIdx.y];
  const EntriesArgument& k = part.x;
  const int head = blockIdx.x, first = head / k.group * k.head_dim;
  const gmem_ptr<float> scores = part.sums + head * part.stride;
  for (int c = 0; c < k.head_dim; ++c) {
    const float factor = part.factors[head * k.head_dim + c];
    for (int j = threadIdx.x; j < k.per_vector; j += kThreads) {
      const int64_t at = static_cast<int64_t>(first + c) * k.per_vector + j;
      float& score = scores[k.place(at)];
      score = fmaf(factor, number_of(k.values, at), score);
    }
    __syncthreads();
  }
}

// A warp a channel.
__global__ void __launch_bounds__(kThreads) accumulate_channel_entries(KVC_GRID_CONSTANT(Table<EntriesPart>, parts)) {
  const EntriesPart& part = parts.of[blockIdx.z];
  const EntriesArgument& v = part.x;
  const int head = blockIdx.y, lane = threadIdx.x % 32, channel = blockIdx.x * (kThreads / 32) + threadIdx.x / 32;
  if (channel >= v.head_dim) return;
  const int64_t first = static_cast<int64_t>(head / v.group * v.head_dim + channel) * v.per_vector;
  float sum = 0.0f;
  for (int j = lane; j < v.per_vector; j += 32) {
    sum = fmaf(part.factors[head * part.stride + v.place(first + j)], number_of(v.values, first + j), sum);
  }
  sum = sum_of_warp(sum);
  if (lane == 0) part.sums[head * v.head_dim + channel] = sum;
}

// Vectors are tokens: a thread a token.
__global__ void __launch_bounds__(kThreads) score_token_entries(KVC_GRID_CONSTANT(Table<EntriesPart>, parts)) {
  const EntriesPart& part = parts.of[blockIdx.y];
  const EntriesArgument& k = part.x;
  const int token = blockIdx.x * kThreads + threadIdx.x;
  if (token >= k.n_vectors) return;
  for (int j = 0; j < k.per_vector; ++j) {
    const int64_t at = static_cast<int64_t>(token) * k.per_vector + j;
    const int place = k.place(at), kv = place / k.head_dim, channel = place % k.head_dim;
    const float value = number_of(k.values, at);
    for (int head = kv * k.group; head < (kv + 1) * k.group; ++head) {
      float& score = part.sums[head * part.stride + token];
      score = fmaf(part.factors[head * k.head_dim + channel], value, score);
    }
  }
}

// A block 512 tokens, one after another: a token's entries are of other channels.
__global__ void __launch_bounds__(kThreads)
    accumulate_token_entries(KVC_GRID_CONSTANT(Table<EntriesPart>, parts), int n_heads) {
  const EntriesPart& part = parts.of[blockIdx.y];
  const EntriesArgument& v = part.x;
  if (static_cast<int>(blockIdx.x) * kSplitTokens >= v.n_vectors) return;
  const int end = min(static_cast<int>(blockIdx.x + 1) * kSplitTokens, v.n_vectors), n = n_heads * v.head_dim;
  const gmem_ptr<float> sums = part.sums + static_cast<int64_t>(blockIdx.x) * n;
  for (int i = threadIdx.x; i < n; i += kThreads) sums[i] = 0.0f;
  __syncthreads();
  for (int token = blockIdx.x * kSplitTokens; token < end; ++token) {
    for (int j = threadIdx.x; j < v.per_vector; j += kThreads) {
      const int64_t at = static_cast<int64_t>(token) * v.per_vector + j;
      const int place = v.place(at), kv = place / v.head_dim, channel = place % v.head_dim;
      const float value = number_of(v.values, at);
      for (int head = kv * v.group; head < (kv + 1) * v.group; ++head) {
        float& sum = sums[head * v.head_dim + channel];
        sum = fmaf(part.factors[head * part.stride + token], value, sum);
      }
    }
    __syncthreads();
  }
}

struct SoftmaxPart {
  gmem_ptr<float> scores, norms;
  gmem_ptr<const float> sinks;
  int64_t stride;
  int n_heads, n_tokens, n_hidden;
  float softcap;
  bool has_norms, has_sinks;
};

// The warps' sums or largest, by `joined`, for all threads.
template <class Join>
__device__ __forceinline__ float joined_in_block(float mine, smem_ptr<float> of_warps, Join joined) {
  for (int apart = 16; apart > 0; apart /= 2) mine = joined(mine, __shfl_xor_sync(0xffffffffu, mine, apart));
  __syncthreads();
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = mine;
  __syncthreads();
  float all = of_warps[0];
  for (int warp = 1; warp < kThreads / 32; ++warp) {
    const float other = of_warps[warp];
    all = joined(all, other);
  }
  return all;
}

// blockIdx.y: which part; of its query heads one a block.
__global__ void __launch_bounds__(kThreads) softmax_scores(KVC_GRID_CONSTANT(Table<SoftmaxPart>, parts)) {
  KVC_SHARED(float, of_warps, kThreads / 32);
  const SoftmaxPart& part = parts.of[blockIdx.y];
  if (static_cast<int>(blockIdx.x) >= part.n_heads) return;
  const int first = part.n_hidden, n_tokens = part.n_tokens;
  const gmem_ptr<float> mine = part.scores + blockIdx.x * part.stride;
  float largest = part.has_sinks ? part.sinks[blockIdx.x] : kNothing;
  for (int t = first + threadIdx.x; t < n_tokens; t += kThreads) {
    if (part.softcap > 0.0f) mine[t] = part.softcap * tanhf(mine[t] / part.softcap);
    largest = fmaxf(largest, mine[t]);
  }
  largest = joined_in_block(largest, of_warps, [](float a, float b) { return fmaxf(a, b); });
  float sum = part.has_sinks && threadIdx.x == 0 ? expf(part.sinks[blockIdx.x] - largest) : 0.0f;
  for (int t = threadIdx.x; t < n_tokens; t += kThreads) {
    const float weight = t < first ? 0.0f : expf(mine[t] - largest);
    mine[t] = weight;
    sum += weight;
  }
  sum = joined_in_block(sum, of_warps, [](float a, float b) { return a + b; });
  if (part.has_norms && threadIdx.x == 0) {
    part.norms[2 * blockIdx.x] = largest;
    part.norms[2 * blockIdx.x + 1] = sum;
  }
  for (int t = first + threadIdx.x; t < n_tokens; t += kThreads) mine[t] = mine[t] / sum;
}

}  // namespace kvc::KVC_DEVICE
