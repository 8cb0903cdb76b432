// attend_codes: one new token's attention to K and V as caches hold them, on tensor cores; splits of all sequences of a
// batch side by side; join_splits.cuh makes outputs of their sums.
//
// Reads     of each token once for up to kHeads query heads of a KV head: codes, and a scale and zero of fp16 a group;
//           K by 128 bits a lane (4 bits, head_dim 128: 4 lanes a token), V by 64 (8 lanes); K of axis tokens by words
//           of a channel's 8 (4 bits) or 16 (2 bits) tokens, and its scales and zeros once for these
// Grid      (splits, KV heads times the eights or sixteens of their query heads, segments), 128 threads. Each warp
//           takes every fourth tile of its split (16 to 128 tokens: kOctets) and joins the others at the end alone, so
//           there is no barrier in the loop. The table of segments is a parameter
// Products  scores [tokens, heads] = K q and outputs [channels, heads] = V^T weights: codes are the left operands, 16
//           rows of them, and heads the 8 columns of the right ones, so that no row is wasted on few heads. Scores
//           become weights where they stand and are transposed by one movmatrix an 8 x 8
// Codes     from global memory to registers in the order they are stored in (fragments.cuh): no shared memory. V's
//           words of two tokens, and of K along tokens those of two channels, are put together by PRMT, two for 32 bits
// Tokens    octet j of a tile holds eight tokens, row w of a product's left operand each: token 8 j + w, and with K
//           along tokens, whose word w holds them, kCodes w + j: V's rows are read in the same order
// Scales    by one HFMA2 a pair of codes, with it made numbers. Zeros are products of their own: K's with the sums of q
//           over a lane's channels (in two halves, so to 22 bits), V's with the weights, a 16th of the codes' or less
// Softmax   running, each warp its own. The largest score that weights refer to is moved, and sums rescaled, only where
//           a score is over e^5.5 above it: then weights would near the end of fp16
// Rounds    q, scale * code, zeros and weights to fp16 (all to bf16 in a cache of bf16); sums in fp32. The outputs'
//           normalized mean squared error is below 1e-6 in most batches of the tests, and at most 4e-6 (bf16: 4e-5)
// Copies    none by cp.async. What hides latency is bytes under way: 25 GB/s a multiprocessor (H100) times 0.8 us are
//           20 KB, from 8 to 12 resident warps, whose loops stand at different places. At 16 bits a warp asks for a
//           tile's K and V before the first product; of codes nvcc delays loads until they are used, so that on sm_90
//           3 to 7 KB are asked for before it (K with its scales, at most) and V piece by piece after the softmax.
//           Stages in shared memory would fix the order, for an instruction of storing and one of loading for each load
// Registers to 168 (3 blocks of 4 warps) with 8 heads, K's rows and head_dim 64 and 128, otherwise 255 (kernels.tsv)
// Shared    16 kHeads (kDim + 2) bytes, after the loop
// Serves    serves() in attend_codes.cpp
// Ideas     flash-decoding (splits); TurboMind and FlashInfer (a group's heads fill the tile); BitDecoding (operands
//           from packed rows); FlashAttention 4 (rescale rarely)
#pragma once

#include "cuda/attend_codes.h"
#include "cuda/fragments.cuh"

namespace kvc::KVC_DEVICE {

constexpr int kSegmentsPerLaunch = 64;
constexpr float kFarAbove = 8.0f;  // in powers of 2: weights of fp16 may be 2^15

// K or V of all heads.
struct Operand {
  gmem_ptr<const unsigned char> rows;
  gmem_ptr<const unsigned short> scale, zero;  // bits of fp16; symmetric codes: twice the scales
  float zero_factor;                           // 1, or -centre: what `zero` is multiplied by
  int64_t head_bytes, head_scales;
  int n_words;     // along tokens, of a row
  int n_groups;    // of a row; 0: one pair for all
  int group_size;  // channels; along tokens: a group's words are 2^group_size
};

struct SegmentArgument {
  Operand k, v;
  gmem_ptr<const float> q;  // [H_q, D]
  gmem_ptr<float> scores;
  gmem_ptr<float> sums;    // [H_q, n_parts, D]: sum of 2^(s - m) v
  gmem_ptr<float2> norms;  // [H_q, n_parts]: m, sum of 2^(s - m), s and m in powers of 2
  int64_t scores_stride;
  int n_tokens, n_hidden, first_token, split_tokens, n_splits;
  int first_part, n_parts;  // of the sequence
};

struct Segments {
  SegmentArgument of[kSegmentsPerLaunch];
};

// One warp's state: the query, and the running sums of its tokens.
template <class T, class KFormat, class VFormat, int kHeads, int kDim>
struct WarpAttention {
  static_assert(kHeads % 8 == 0 && !VFormat::kAlongTokens);
  static constexpr bool kAlongTokens = KFormat::kAlongTokens;
  static constexpr int kEights = kHeads / 8;
  using KShare = Share<std::conditional_t<kAlongTokens, Format<16>, KFormat>, kDim, 4>;  // kAlongTokens: not used
  using VShare = Share<VFormat, kDim, 8>;
  // Octets of a tile: 32 registers of K a lane, but for the least there can be.
  static constexpr int kMost = kHeads > 8 ? 4 : 8, kFit = 128 * KFormat::kCodes / kDim;
  static constexpr int kOctets = kAlongTokens ? KFormat::kCodes : kFit < 4 ? 2 : kFit > kMost ? kMost : kFit / 2 * 2;
  static constexpr int kTileTokens = 8 * kOctets;
  static constexpr int kSteps = kDim / 16;  // of a score's product
  static constexpr int kRows = kDim / 16;   // of outputs, 16 channels each
  static constexpr int kKSums = (KShare::kChunks + 1) / 2, kVSums = (VShare::kChunks + 1) / 2;  // products of zeros
  static constexpr bool kKCoded = KFormat::kBits < 16, kVCoded = VFormat::kBits < 16;
  static constexpr int kKRow = kDim * KFormat::kBits / 8, kVRow = kDim * VFormat::kBits / 8;  // bytes of a token

  const SegmentArgument& a;
  int group, member;  // lane / 4: a token of K, a chunk of V's channels; lane % 4: a chunk of K's, tokens of V
  int head, n_heads;  // the first query head, how many
  gmem_ptr<const unsigned char> k_rows, v_rows;
  gmem_ptr<const unsigned short> k_scale, k_zero, v_scale, v_zero;
  __half2 k_zero_factor, v_zero_factor;
  int k_group[KShare::kChunks] = {}, v_group[VShare::kChunks] = {};

  unsigned query[kEights][kSteps][2], query_sums[kEights][kKSums][2] = {};
  float sums[kEights][kRows][4] = {}, zero_sums[kEights][kVSums][4] = {};
  float reference[kEights][2], total[kEights][2] = {};  // of heads 2 member, 2 member + 1

  __device__ WarpAttention(const SegmentArgument& a, int kv, int head, int n_heads, int lane)
      : a(a), group(lane / 4), member(lane % 4), head(head), n_heads(n_heads) {
    k_rows = a.k.rows + kv * a.k.head_bytes, v_rows = a.v.rows + kv * a.v.head_bytes;
    k_scale = a.k.scale + kv * a.k.head_scales, v_scale = a.v.scale + kv * a.v.head_scales;
    k_zero = a.k.zero + kv * a.k.head_scales, v_zero = a.v.zero + kv * a.v.head_scales;
    k_zero_factor = __float2half2_rn(a.k.zero_factor), v_zero_factor = __float2half2_rn(a.v.zero_factor);
    if constexpr (kKCoded && !kAlongTokens) {
#pragma unroll
      for (int c = 0; c < KShare::kChunks; ++c) {
        k_group[c] = KShare::channel(member, c * KShare::kVector) / a.k.group_size;
      }
    }
    if constexpr (kVCoded) {
#pragma unroll
      for (int c = 0; c < VShare::kChunks; ++c) {
        v_group[c] = VShare::channel(group, c * VShare::kVector) / a.v.group_size;
      }
    }
    read_query();
  }

  // The channels of pair p of the registers of K, as the lanes of `member` read it.
  __device__ static constexpr int low_channel(int member, int p) {
    if (kAlongTokens) return 16 * (p / 2) + 4 * member + 2 * (p % 2);
    return KShare::channel(member, p / KFormat::kPairs) + p % KFormat::kPairs;
  }
  __device__ static constexpr int high_channel(int member, int p) {
    return low_channel(member, p) + (kAlongTokens ? 1 : KFormat::kPairs);
  }

  __device__ __forceinline__ void read_query() {
    constexpr int kChunkPairs = kDim / 8 / KShare::kChunks;
#pragma unroll
    for (int e = 0; e < kEights; ++e) {
      const bool there = 8 * e + group < n_heads;
      const gmem_ptr<const float> q = a.q + static_cast<int64_t>(head + 8 * e + group) * kDim;
      float sum = 0.0f;
#pragma unroll
      for (int p = 0; p < kDim / 8; ++p) {
        float low = 0.0f, high = 0.0f;
        if (there) low = q[low_channel(member, p)], high = q[high_channel(member, p)];
        const float unit = kAlongTokens ? 1.0f : KFormat::unit(p % KFormat::kPairs);
        query[e][p / 2][p % 2] = pack<T>(low * unit, high * unit);
        if constexpr (kKCoded && !kAlongTokens) {
          const __half2 rounded = as_half2(query[e][p / 2][p % 2]);
          const float both = (__low2float(rounded) + __high2float(rounded)) / unit;
          sum = p % kChunkPairs == 0 ? both : sum + both;
          if (p % kChunkPairs == kChunkPairs - 1) {
            const float half = to_float(__float2half_rn(sum));
            query_sums[e][p / kChunkPairs / 2][p / kChunkPairs % 2] = pack<__half>(half, sum - half);
          }
        }
      }
      reference[e][0] = reference[e][1] = kNothing;
    }
  }

  // Token w of octet j of a tile.
  __device__ __forceinline__ static constexpr int token_of(int j, int w) {
    return kAlongTokens ? KFormat::kCodes * w + j : 8 * j + w;
  }
  // How far a lane's tokens of a tile are from the first one, K's of octet j (its row `group`) and V's of octets 2 i
  // and 2 i + 1 (rows 2 member and 2 member + 1 of either): constants where all are there. One that is not is the last
  // one.
  template <bool kWhole>
  __device__ __forceinline__ int distance(int from, int apart) const {
    return kWhole ? apart : min(from + apart, a.n_tokens - 1) - from;
  }
  template <bool kWhole>
  __device__ __forceinline__ int k_distance(int first, int j) const {
    return distance<kWhole>(first + token_of(0, group), token_of(j, 0));
  }
  template <bool kWhole>
  __device__ __forceinline__ int v_distance(int first, int i, int which) const {
    return distance<kWhole>(first + token_of(0, 2 * member), token_of(2 * i + which / 2, which % 2));
  }

  template <int kOf>
  using KWords = unsigned[kOf][KShare::kUnits];
  using VWords = unsigned[4][VShare::kUnits];
  template <int kOf>
  using Scores = float[kEights][kOf / 2][4];  // rows: tokens of octets 2 i, 2 i + 1; columns: heads

  template <bool kWhole, int kOf>
  __device__ __forceinline__ void load_k(int first, KWords<kOf>& words) {
    const auto rows = k_rows + static_cast<int64_t>(first + token_of(0, group)) * kKRow;
#pragma unroll
    for (int j = 0; j < kOf; ++j) load_units<KShare, 4>(rows + k_distance<kWhole>(first, j) * kKRow, member, words[j]);
  }
  template <bool kWhole>
  __device__ __forceinline__ void load_v(int first, int i, VWords& words) {
    const auto rows = v_rows + static_cast<int64_t>(first + token_of(0, 2 * member)) * kVRow;
#pragma unroll
    for (int which = 0; which < 4; ++which) {
      load_units<VShare, 8>(rows + v_distance<kWhole>(first, i, which) * kVRow, group, words[which]);
    }
  }

  __device__ __forceinline__ static unsigned zeros_of(__half2 factor, unsigned a, unsigned b) {
    return as_bits(__hmul2(as_half2(lower_halves(a, b)), factor));
  }

  // Numbers of 16 bits, or codes along channels.
  template <bool kWhole, int kOf>
  __device__ __forceinline__ void score(int first, const KWords<kOf>& words, Scores<kOf>& scores) {
    constexpr int kChunkPairs = kDim / 8 / KShare::kChunks;
    const int64_t first_scale = static_cast<int64_t>(first + token_of(0, group)) * a.k.n_groups;
#pragma unroll
    for (int i = 0; i < kOf / 2; ++i) {
      Scales scales[2][KShare::kChunks] = {};
      if constexpr (kKCoded) {
        unsigned zeros[2][2 * kKSums] = {};
#pragma unroll
        for (int which = 0; which < 2; ++which) {
          const int row = k_distance<kWhole>(first, 2 * i + which) * a.k.n_groups;
#pragma unroll
          for (int c = 0; c < KShare::kChunks; ++c) {
            const unsigned scale = (k_scale + (first_scale + k_group[c]))[row];
            const unsigned zero = (k_zero + (first_scale + k_group[c]))[row];
            scales[which][c] = scales_of(scale, scale);
            zeros[which][c] = zeros_of(k_zero_factor, zero, zero);
          }
        }
#pragma unroll
        for (int c = 0; c < 2 * kKSums; c += 2) {
          const unsigned left[4] = {zeros[0][c], zeros[1][c], zeros[0][c + 1], zeros[1][c + 1]};
#pragma unroll
          for (int e = 0; e < kEights; ++e) multiply<T>(scores[e][i], left, query_sums[e][c / 2]);
        }
      }
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        unsigned left[4];
#pragma unroll
        for (int n = 0; n < 4; ++n) {
          const int p = 2 * step + n / 2;
          left[n] = scaled_pair<KFormat>(words[2 * i + n % 2][p / KFormat::kPairs], p % KFormat::kPairs,
                                         scales[n % 2][p / kChunkPairs]);
        }
#pragma unroll
        for (int e = 0; e < kEights; ++e) multiply<T>(scores[e][i], left, query[e][step]);
      }
    }
  }

  // Codes along tokens: words of eight neighbouring tiles' entries, of channels 16 step + 4 member and the next three.
  __device__ __forceinline__ void score_along_tokens(int first, Scores<kOctets>& scores) {
    constexpr int kBatch = kSteps < 8 ? kSteps : kDim > 128 ? 4 : 8;  // steps whose words are under way at once
    const int word = min(first / KFormat::kCodes + group, a.k.n_words - 1);
    const int pair = min(word >> a.k.group_size, a.k.n_groups - 1), channel = 4 * member;
    const int width = min(16, a.k.n_words - (word & ~15)), pair_width = min(16, a.k.n_groups - (pair & ~15));
    const auto words = pointer_cast<const unsigned>(k_rows) +
                       (static_cast<int64_t>(word & ~15) * kDim + (word & 15) + channel * width);
    const int64_t first_scale = static_cast<int64_t>(pair & ~15) * kDim + (pair & 15) + channel * pair_width;
    const auto scale = k_scale + first_scale, zero = k_zero + first_scale;
    float of_zeros[kEights][4] = {};
#pragma unroll
    for (int batch = 0; batch < kSteps; batch += kBatch) {
      unsigned codes[kBatch][4];
#pragma unroll
      for (int n = 0; n < 4 * kBatch; ++n) codes[n / 4][n % 4] = words[(16 * (batch + n / 4) + n % 4) * width];
#pragma unroll
      for (int s = 0; s < kBatch; ++s) {
        Scales scales[2];
        unsigned zeros[4] = {};
#pragma unroll
        for (int n = 0; n < 2; ++n) {
          const int at = (16 * (batch + s) + 2 * n) * pair_width, next = (16 * (batch + s) + 2 * n + 1) * pair_width;
          scales[n] = scales_of(scale[at], scale[next]);
          zeros[2 * n] = zeros_of(k_zero_factor, zero[at], zero[next]);
        }
        const unsigned lower[2] = {lower_halves(codes[s][0], codes[s][1]), lower_halves(codes[s][2], codes[s][3])};
        const unsigned upper[2] = {upper_halves(codes[s][0], codes[s][1]), upper_halves(codes[s][2], codes[s][3])};
#pragma unroll
        for (int e = 0; e < kEights; ++e) multiply<T>(of_zeros[e], zeros, query[e][batch + s]);
#pragma unroll
        for (int i = 0; i < kOctets / 2; ++i) {
          unsigned left[4];
#pragma unroll
          for (int n = 0; n < 4; ++n) {
            const int code = 2 * i + n % 2;
            left[n] = scaled_pair<KFormat>(code < KFormat::kPairs ? lower[n / 2] : upper[n / 2], code % KFormat::kPairs,
                                           scales[n / 2]);
          }
#pragma unroll
          for (int e = 0; e < kEights; ++e) multiply<T>(scores[e][i], left, query[e][batch + s]);
        }
      }
    }
#pragma unroll
    for (int e = 0; e < kEights; ++e) {
#pragma unroll
      for (int i = 0; i < kOctets / 2; ++i) {
#pragma unroll
        for (int n = 0; n < 4; ++n) {
          const float unit = KFormat::unit((2 * i + n / 2) % KFormat::kPairs);
          scores[e][i][n] = fmaf(scores[e][i][n], unit, of_zeros[e][n % 2]);
        }
      }
    }
  }

  // Adds what other parts of K gave and writes the sums; hides tokens, and leaves out those that there are not.
  template <int kOf>
  __device__ __forceinline__ void complete(int first, Scores<kOf>& scores) {
#pragma unroll
    for (int e = 0; e < kEights; ++e) {
#pragma unroll
      for (int i = 0; i < kOf / 2; ++i) {
#pragma unroll
        for (int n = 0; n < 4; ++n) {
          const int h = 8 * e + 2 * member + n % 2, token = first + token_of(2 * i + n / 2, group);
          const bool there = token < a.n_tokens, hidden = !there || token < a.n_hidden;
          if (hidden) scores[e][i][n] = kNothing;
          if (!a.scores || !there || h >= n_heads) continue;
          const int64_t at = (head + h) * a.scores_stride + token;
          const float before = a.scores[at];
          if (!hidden) scores[e][i][n] += before;
          a.scores[at] = scores[e][i][n];
        }
      }
    }
  }

  // Moves what weights refer to where a score is far above it.
  template <int kOf>
  __device__ __forceinline__ void refer(const Scores<kOf>& scores) {
    float largest[kEights][2];
    bool above = false;
#pragma unroll
    for (int e = 0; e < kEights; ++e) {
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        float most = scores[e][0][n];
#pragma unroll
        for (int i = 0; i < kOf / 2; ++i) most = fmaxf(most, fmaxf(scores[e][i][n], scores[e][i][n + 2]));
        largest[e][n] = most * kLog2E;
        above = above || largest[e][n] > reference[e][n] + kFarAbove;
      }
    }
    if (!__any_sync(0xffffffffu, above)) return;
#pragma unroll
    for (int e = 0; e < kEights; ++e) {
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        float most = fmaxf(largest[e][n], reference[e][n]);
#pragma unroll
        for (int apart = 4; apart < 32; apart *= 2) most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, apart));
        const float before = exp2_approx(reference[e][n] - most);
        reference[e][n] = most;
        total[e][n] *= before;
#pragma unroll
        for (int r = 0; r < kRows; ++r) sums[e][r][n] *= before, sums[e][r][n + 2] *= before;
#pragma unroll
        for (int z = 0; z < kVSums; ++z) zero_sums[e][z][n] *= before, zero_sums[e][z][n + 2] *= before;
      }
    }
  }

  // Weights of octets 2 i and 2 i + 1, transposed: the right operand of the next product.
  template <int kOf>
  __device__ __forceinline__ void apply_softmax(const Scores<kOf>& scores, int i, unsigned (&weights)[kEights][2]) {
#pragma unroll
    for (int e = 0; e < kEights; ++e) {
#pragma unroll
      for (int octet = 0; octet < 2; ++octet) {
        const float low = exp2_approx(fmaf(scores[e][i][2 * octet], kLog2E, -reference[e][0]));
        const float high = exp2_approx(fmaf(scores[e][i][2 * octet + 1], kLog2E, -reference[e][1]));
        total[e][0] += low, total[e][1] += high;
        weights[e][octet] = movmatrix_trans(pack<T>(low, high));
      }
    }
  }

  template <bool kWhole>
  __device__ __forceinline__ void accumulate_v(int first, int i, const VWords& words,
                                               const unsigned (&weights)[kEights][2]) {
    Scales scales[2][VShare::kChunks] = {};
    if constexpr (kVCoded) {
      const int64_t first_scale = static_cast<int64_t>(first + token_of(0, 2 * member)) * a.v.n_groups;
      unsigned zeros[2][2 * kVSums] = {};
#pragma unroll
      for (int octet = 0; octet < 2; ++octet) {
        const int low = v_distance<kWhole>(first, i, 2 * octet) * a.v.n_groups;
        const int high = v_distance<kWhole>(first, i, 2 * octet + 1) * a.v.n_groups;
#pragma unroll
        for (int c = 0; c < VShare::kChunks; ++c) {
          const auto scale = v_scale + (first_scale + v_group[c]), zero = v_zero + (first_scale + v_group[c]);
          scales[octet][c] = scales_of(scale[low], scale[high]);
          zeros[octet][c] = zeros_of(v_zero_factor, zero[low], zero[high]);
        }
      }
#pragma unroll
      for (int c = 0; c < 2 * kVSums; c += 2) {
        const unsigned left[4] = {zeros[0][c], zeros[0][c + 1], zeros[1][c], zeros[1][c + 1]};
#pragma unroll
        for (int e = 0; e < kEights; ++e) multiply<T>(zero_sums[e][c / 2], left, weights[e]);
      }
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      unsigned left[4];
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        const int code = 2 * r + n % 2, unit = code / VShare::kUnitCodes, octet = n / 2;
        const bool lower = VShare::kHalfWords || code % VFormat::kCodes < VFormat::kPairs;
        const unsigned x = words[2 * octet][unit], y = words[2 * octet + 1][unit];
        left[n] = scaled_pair<VFormat>(lower ? lower_halves(x, y) : upper_halves(x, y), code % VFormat::kPairs,
                                       scales[octet][unit / VShare::kVector]);
      }
#pragma unroll
      for (int e = 0; e < kEights; ++e) multiply<T>(sums[e][r], left, weights[e]);
    }
  }

  // kOf octets of tokens from `first` on; kWhole: all are there, visible, and scored by K's codes alone. V's first
  // words are asked for before K's are waited for, the others as many tokens ahead.
  template <bool kWhole, int kOf>
  __device__ __forceinline__ void take(int first) {
    constexpr int kFewest = kAlongTokens && (kOf > 8 || kDim > 128) ? 8 : 32, kFits = kFewest / (4 * VShare::kUnits);
    constexpr int kAhead = kFits < 1 ? 1 : kFits < kOf / 2 ? kFits : kOf / 2;
    Scores<kOf> scores = {};
    VWords v_words[kOf / 2];
    KWords<kAlongTokens ? 1 : kOf> k_words;
    if constexpr (!kAlongTokens) load_k<kWhole, kOf>(first, k_words);
#pragma unroll
    for (int i = 0; i < kAhead; ++i) load_v<kWhole>(first, i, v_words[i]);
    if constexpr (kAlongTokens) {
      score_along_tokens(first, scores);
    } else {
      score<kWhole, kOf>(first, k_words, scores);
    }
    if constexpr (!kWhole) complete<kOf>(first, scores);
    refer<kOf>(scores);
#pragma unroll
    for (int i = 0; i < kOf / 2; ++i) {
      if (i + kAhead < kOf / 2) load_v<kWhole>(first, i + kAhead, v_words[i + kAhead]);
      unsigned weights[kEights][2];
      apply_softmax<kOf>(scores, i, weights);
      accumulate_v<kWhole>(first, i, v_words[i], weights);
    }
  }

  // Every fourth tile from `first` to `end`: those that are not whole, some tokens at a time; then the loop that costs.
  __device__ __forceinline__ void take_tiles(int first, int end) {
    constexpr int kStep = 4 * kTileTokens, kOf = kAlongTokens ? kOctets : 2;
    const int whole_from = a.scores ? end : a.n_hidden;
    const auto is_whole = [&](int tile) { return tile >= whole_from && tile + kTileTokens <= end; };
    int whole = end;
#pragma unroll 1
    for (int tile = first; tile < end; tile += kStep) {
      if (is_whole(tile)) {
        whole = min(whole, tile);
        continue;
      }
#pragma unroll 1
      for (int octet = 0; octet < kOctets && tile + 8 * octet < end; octet += kOf) take<false, kOf>(tile + 8 * octet);
    }
#pragma unroll 1
    for (; whole + kTileTokens <= end; whole += kStep) take<true, kOctets>(whole);
  }

  // Number n of row r of the outputs, and the channel that it is of.
  __device__ __forceinline__ float output(int e, int r, int n) const {
    const int code = 2 * r + n / 2, chunk = code / VShare::kChunkCodes;
    const float zero = kVCoded ? zero_sums[e][chunk / 2][chunk % 2 * 2 + n % 2] : 0.0f;
    return fmaf(sums[e][r][n], VFormat::unit(code % VFormat::kPairs), zero);
  }
  __device__ __forceinline__ int channel(int r) const {
    return VShare::channel(group, 2 * r / VShare::kUnitCodes) + 2 * r % VShare::kUnitCodes;
  }
};

// The block's four warps' sums -> the split's, in the order of warps.
template <class Warp, int kHeads, int kDim>
__device__ __forceinline__ void join_warps(const Warp& mine, int warp, int lane, int part) {
  constexpr int kRows = Warp::kRows, kEach = kHeads * kDim;
  KVC_SHARED(float, together, 4 * kEach);  // as they stand in lanes: no two of a warp share a bank
  KVC_SHARED(float, largest, 4 * kHeads);
  KVC_SHARED(float, total, 4 * kHeads);
#pragma unroll
  for (int e = 0; e < Warp::kEights; ++e) {
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      float sum = mine.total[e][n];
#pragma unroll
      for (int apart = 4; apart < 32; apart *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, apart);
      if (mine.group != 0) continue;
      largest[warp * kHeads + 8 * e + 2 * mine.member + n] = mine.reference[e][n];
      total[warp * kHeads + 8 * e + 2 * mine.member + n] = sum;
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        together[warp * kEach + ((e * kRows + r) * 4 + n) * 32 + lane] = mine.output(e, r, n);
      }
    }
  }
  __syncthreads();
#pragma unroll
  for (int e = 0; e < Warp::kEights; ++e) {
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      const int h = 8 * e + 2 * mine.member + n;
      float factor[4], most = kNothing, all = 0.0f;
#pragma unroll
      for (int w = 0; w < 4; ++w) {
        factor[w] = largest[w * kHeads + h];
        most = fmaxf(most, factor[w]);
      }
#pragma unroll
      for (int w = 0; w < 4; ++w) {
        const float sum = total[w * kHeads + h];
        factor[w] = exp2_approx(factor[w] - most);
        all = fmaf(factor[w], sum, all);
      }
      if (h >= mine.n_heads) continue;
      const int64_t at = static_cast<int64_t>(mine.head + h) * mine.a.n_parts + part;
      if (warp == 0 && mine.group == 0) mine.a.norms[at] = make_float2(most, all);
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        if (r % 4 != warp) continue;
        float2 sum = make_float2(0.0f, 0.0f);
#pragma unroll
        for (int w = 0; w < 4; ++w) {
          const int place = w * kEach + ((e * kRows + r) * 4 + n) * 32 + lane;
          const float low = together[place], high = together[place + 64];
          sum.x = fmaf(factor[w], low, sum.x), sum.y = fmaf(factor[w], high, sum.y);
        }
        pointer_cast<float2>(mine.a.sums + (at * kDim + mine.channel(r)))[0] = sum;
      }
    }
  }
}

// Writes that tokens before the first visible split are hidden.
__device__ __forceinline__ void hide(const SegmentArgument& a, int head, int n_heads) {
  if (!a.scores) return;  // none are asked for
  const int n = min(a.first_token, a.n_tokens);
  for (int h = 0; h < n_heads; ++h) {
    for (int t = threadIdx.x; t < n; t += kThreads) a.scores[(head + h) * a.scores_stride + t] = kNothing;
  }
}

template <class T, class KFormat, class VFormat, int kHeads, int kDim>
__global__ void __launch_bounds__(kThreads, kDim > 128 || kDim == 96 || kHeads > 8 || KFormat::kAlongTokens ? 2 : 3)
    attend_codes(const __grid_constant__ Segments segments, int group) {
  using Warp = WarpAttention<T, KFormat, VFormat, kHeads, kDim>;
  const SegmentArgument& a = segments.of[blockIdx.z];
  const int split = blockIdx.x, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (split >= a.n_splits) return;
  const int chunks = (group + kHeads - 1) / kHeads, kv = blockIdx.y / chunks, chunk = blockIdx.y % chunks * kHeads;
  Warp mine(a, kv, kv * group + chunk, min(kHeads, group - chunk), lane);
  if (split == 0) hide(a, mine.head, mine.n_heads);
  const int begin = a.first_token + split * a.split_tokens, end = min(begin + a.split_tokens, a.n_tokens);
  mine.take_tiles(begin + warp * Warp::kTileTokens, end);
  join_warps<Warp, kHeads, kDim>(mine, warp, lane, a.first_part + split);
}

}  // namespace kvc::KVC_DEVICE
