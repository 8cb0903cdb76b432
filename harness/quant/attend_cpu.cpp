#include "attend_cpu.h"

#include <algorithm>
#include <bit>
#include <cstring>

#define KVC_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#define KVC_INLINE inline __attribute__((always_inline))

namespace kvc::kernels {
namespace {

constexpr int64_t kLanes = 16;
constexpr int64_t kTile = 64;     // tokens of a tile where groups run along tokens
constexpr int64_t kQueries = 8;   // query heads handled together

KVC_INLINE void halves_to_floats(const uint16_t* x, int64_t n, float* out) {
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t bits = x[i];
    const float magnitude = std::bit_cast<float>((bits & 0x7fffu) << 13) * 0x1p112f;  // finite halves only
    out[i] = std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | (bits & 0x8000u) << 16);
  }
}

template <int kBits>
KVC_INLINE void unpack(const int32_t* words, int64_t n_words, float* out) {
  if constexpr (kBits == 8) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(words);  // little endian: byte j is code j
    for (int64_t j = 0; j < 4 * n_words; ++j) out[j] = static_cast<float>(bytes[j]);
  } else {
    constexpr int64_t kCodes = 32 / kBits;
    for (int64_t w = 0; w < n_words; ++w) {
      const int32_t word = words[w];
      for (int64_t l = 0; l < kCodes; ++l) {
        out[w * kCodes + l] = static_cast<float>((word >> (kBits * l)) & ((1 << kBits) - 1));
      }
    }
  }
}

KVC_INLINE float dot(const float* a, const float* b, int64_t n) {
  float lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int64_t l = 0; l < kLanes; ++l) lanes[l] += a[i + l] * b[i + l];
  }
  for (; i < n; ++i) lanes[0] += a[i] * b[i];
  for (int64_t half = kLanes / 2; half > 0; half /= 2) {
    for (int64_t l = 0; l < half; ++l) lanes[l] += lanes[l + half];
  }
  return lanes[0];
}

KVC_INLINE void axpy(float w, const float* x, int64_t n, float* y) {
  for (int64_t i = 0; i < n; ++i) y[i] += w * x[i];
}

// One group's tile: tokens [first, first + n), codes word-aligned at `first`.
template <int kBits>
KVC_INLINE void score_tile(const Codes& k, int64_t first, int64_t n, const float* scaled_q, int64_t n_q,
                           const float* bias, float* scores, int64_t stride) {
  const int64_t n_words = (n * kBits + 31) / 32, n_lanes = (n + kLanes - 1) / kLanes * kLanes;
  alignas(64) float codes[kTile] = {};
  alignas(64) float sums[kQueries][kTile] = {};
  for (int64_t j = 0; j < k.head_dim; ++j) {
    unpack<kBits>(k.words + j * k.n_words + first * kBits / 32, n_words, codes);
    for (int64_t i = 0; i < n_q; ++i) axpy(scaled_q[i * k.head_dim + j], codes, n_lanes, sums[i]);
  }
  for (int64_t i = 0; i < n_q; ++i) {
    for (int64_t t = 0; t < n; ++t) scores[i * stride + first + t] += sums[i][t] + bias[i];
  }
}

template <int kBits>
KVC_INLINE void score_token_groups_of(const Codes& k, ConstRows q, Rows scores) {
  float scaled_q[kQueries * kMaxHeadDim];
  for (int64_t group = 0; group < k.n_groups; ++group) {
    float bias[kQueries];
    for (int64_t i = 0; i < q.n; ++i) {
      bias[i] = 0;
      for (int64_t j = 0; j < k.head_dim; ++j) {
        scaled_q[i * k.head_dim + j] = q.data[i * q.stride + j] * k.scale[j * k.n_groups + group];
        bias[i] += q.data[i * q.stride + j] * k.zero[j * k.n_groups + group];
      }
    }
    const int64_t end = std::min(k.n_tokens, (group + 1) * k.group_size);
    for (int64_t t = group * k.group_size; t < end; t += kTile) {
      score_tile<kBits>(k, t, std::min(kTile, end - t), scaled_q, q.n, bias, scores.data, scores.stride);
    }
  }
}

template <int kBits>
KVC_INLINE void score_channel_groups_of(const Codes& k, ConstRows q, Rows scores) {
  alignas(64) float codes[kMaxHeadDim + 32];
  float sum_q[kQueries * kMaxHeadDim];  // [n_q, n_groups]: sum of q over the group
  for (int64_t i = 0; i < q.n; ++i) {
    for (int64_t g = 0; g < k.n_groups; ++g) {
      float sum = 0;
      for (int64_t j = 0; j < k.group_size; ++j) sum += q.data[i * q.stride + g * k.group_size + j];
      sum_q[i * k.n_groups + g] = sum;
    }
  }
  for (int64_t t = 0; t < k.n_tokens; ++t) {
    unpack<kBits>(k.words + t * k.n_words, k.n_words, codes);
    for (int64_t i = 0; i < q.n; ++i) {
      float score = 0;
      for (int64_t g = 0; g < k.n_groups; ++g) {
        const int64_t j = g * k.group_size, side = t * k.n_groups + g;
        score += k.scale[side] * dot(q.data + i * q.stride + j, codes + j, k.group_size) + k.zero[side] * sum_q[i * k.n_groups + g];
      }
      scores.data[i * scores.stride + t] += score;
    }
  }
}

template <int kBits>
KVC_INLINE void weigh_channel_groups_of(const Codes& v, ConstRows weights, Rows out) {
  alignas(64) float codes[kMaxHeadDim + 32];
  alignas(64) float sums[kQueries * kMaxHeadDim];  // [n_q, D]
  float bias[kQueries * kMaxHeadDim];              // [n_q, n_groups]: sum of weight * zero
  std::fill_n(sums, weights.n * v.head_dim, 0.f);
  std::fill_n(bias, weights.n * v.n_groups, 0.f);
  for (int64_t t = 0; t < v.n_tokens; ++t) {
    unpack<kBits>(v.words + t * v.n_words, v.n_words, codes);
    for (int64_t i = 0; i < weights.n; ++i) {
      const float weight = weights.data[i * weights.stride + t];
      for (int64_t g = 0; g < v.n_groups; ++g) {
        const int64_t j = g * v.group_size, side = t * v.n_groups + g;
        axpy(weight * v.scale[side], codes + j, v.group_size, sums + i * v.head_dim + j);
        bias[i * v.n_groups + g] += weight * v.zero[side];
      }
    }
  }
  for (int64_t i = 0; i < weights.n; ++i) {
    for (int64_t j = 0; j < v.head_dim; ++j) {
      out.data[i * out.stride + j] += sums[i * v.head_dim + j] + bias[i * v.n_groups + j / v.group_size];
    }
  }
}

template <class T>
KVC_INLINE const float* row_floats(const T* x, int64_t n, float* scratch) {
  if constexpr (sizeof(T) == 4) {
    return x;
  } else {
    halves_to_floats(x, n, scratch);
    return scratch;
  }
}

template <class T>
KVC_INLINE void score_rows_of(const T* x, int64_t n_tokens, int64_t dim, ConstRows q, Rows scores) {
  alignas(64) float scratch[kMaxHeadDim];
  for (int64_t t = 0; t < n_tokens; ++t) {
    const float* row = row_floats(x + t * dim, dim, scratch);
    for (int64_t i = 0; i < q.n; ++i) scores.data[i * scores.stride + t] += dot(q.data + i * q.stride, row, dim);
  }
}

template <class T>
KVC_INLINE void weigh_rows_of(const T* x, int64_t n_tokens, int64_t dim, ConstRows weights, Rows out) {
  alignas(64) float scratch[kMaxHeadDim];
  for (int64_t t = 0; t < n_tokens; ++t) {
    const float* row = row_floats(x + t * dim, dim, scratch);
    for (int64_t i = 0; i < weights.n; ++i) axpy(weights.data[i * weights.stride + t], row, dim, out.data + i * out.stride);
  }
}

// Calls f with at most kQueries rows of both.
template <class F>
KVC_INLINE void by_queries(ConstRows in, Rows out, F f) {
  for (int64_t i = 0; i < in.n; i += kQueries) {
    const int64_t n = std::min(kQueries, in.n - i);
    f(ConstRows{in.data + i * in.stride, in.stride, n}, Rows{out.data + i * out.stride, out.stride, n});
  }
}

// exp(x) for x <= 0, relative error 2e-7; below -87 it is exp(-87) = 1.6e-38.
KVC_INLINE float exp_negative(float x) {
  constexpr float kRound = 12582912.f;  // 1.5 * 2^23
  x = x < -87.f ? -87.f : x;
  const float n = (x * 1.44269504f + kRound) - kRound;
  const float r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.f;
  return p * std::bit_cast<float>((static_cast<int32_t>(n) + 127) << 23);
}

}  // namespace

KVC_CLONES void to_float(const uint16_t* x, int64_t n, float* out) { halves_to_floats(x, n, out); }

#define KVC_BY_BITS(function)                                   \
  switch (codes.bits) {                                         \
    case 2: by_queries(in, out, [&](auto a, auto b) __attribute__((always_inline)) { function<2>(codes, a, b); }); break; \
    case 4: by_queries(in, out, [&](auto a, auto b) __attribute__((always_inline)) { function<4>(codes, a, b); }); break; \
    default: by_queries(in, out, [&](auto a, auto b) __attribute__((always_inline)) { function<8>(codes, a, b); });       \
  }

KVC_CLONES void score_token_groups(const Codes& codes, ConstRows in, Rows out) { KVC_BY_BITS(score_token_groups_of) }
KVC_CLONES void score_channel_groups(const Codes& codes, ConstRows in, Rows out) { KVC_BY_BITS(score_channel_groups_of) }
KVC_CLONES void weigh_channel_groups(const Codes& codes, ConstRows in, Rows out) { KVC_BY_BITS(weigh_channel_groups_of) }

KVC_CLONES void score_rows(const uint16_t* x, int64_t n_tokens, int64_t dim, ConstRows q, Rows scores) {
  score_rows_of(x, n_tokens, dim, q, scores);
}
KVC_CLONES void score_rows(const float* x, int64_t n_tokens, int64_t dim, ConstRows q, Rows scores) {
  score_rows_of(x, n_tokens, dim, q, scores);
}
KVC_CLONES void weigh_rows(const uint16_t* x, int64_t n_tokens, int64_t dim, ConstRows weights, Rows out) {
  weigh_rows_of(x, n_tokens, dim, weights, out);
}
KVC_CLONES void weigh_rows(const float* x, int64_t n_tokens, int64_t dim, ConstRows weights, Rows out) {
  weigh_rows_of(x, n_tokens, dim, weights, out);
}

KVC_CLONES void softmax(float* x, int64_t n) {
  float top = x[0];
  for (int64_t i = 1; i < n; ++i) top = x[i] > top ? x[i] : top;
  float lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int64_t l = 0; l < kLanes; ++l) {
      x[i + l] = exp_negative(x[i + l] - top);
      lanes[l] += x[i + l];
    }
  }
  for (; i < n; ++i) {
    x[i] = exp_negative(x[i] - top);
    lanes[0] += x[i];
  }
  float sum = 0;
  for (const float lane : lanes) sum += lane;
  const float factor = 1.f / sum;
  for (i = 0; i < n; ++i) x[i] *= factor;
}

}  // namespace kvc::kernels
