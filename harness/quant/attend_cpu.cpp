#include "attend_cpu.h"

#include <algorithm>
#include <bit>
#include <cstring>

#define KVC_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#define KVC_INLINE inline __attribute__((always_inline))

namespace kvc::kernels {
namespace {

constexpr int64_t kLanes = 16;
typedef float Floats __attribute__((vector_size(64)));
typedef int32_t Ints __attribute__((vector_size(64)));
typedef uint16_t Shorts __attribute__((vector_size(32)));
typedef uint8_t Bytes __attribute__((vector_size(16)));

constexpr int64_t kQueries = 4;                     // most query heads handled together
constexpr int64_t kRow = kMaxHeadDim + 2 * kLanes;  // a row of unpacked codes may end in padding

template <class V, class T>
KVC_INLINE V load(const T* x) {
  V v;
  std::memcpy(&v, x, sizeof(V));
  return v;
}

template <class V, class T>
KVC_INLINE void store(const V& v, T* x) {
  std::memcpy(x, &v, sizeof(V));
}

KVC_INLINE float total(const Floats& v) {
  float lanes[kLanes];
  store(v, lanes);
  for (int64_t half = kLanes / 2; half > 0; half /= 2) {
    for (int64_t l = 0; l < half; ++l) lanes[l] += lanes[l + half];
  }
  return lanes[0];
}

KVC_INLINE float half_to_float(uint32_t bits) {  // finite halves only
  const float magnitude = std::bit_cast<float>((bits & 0x7fffu) << 13) * 0x1p112f;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | (bits & 0x8000u) << 16);
}

KVC_INLINE void halves_to_floats(const uint16_t* x, int64_t n, float* out) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const Ints bits = __builtin_convertvector(load<Shorts>(x + i), Ints);
    const Floats magnitude = (Floats)((bits & 0x7fff) << 13) * 0x1p112f;
    store((Ints)magnitude | (bits & 0x8000) << 16, out + i);
  }
  for (; i < n; ++i) out[i] = half_to_float(x[i]);
}

// 16 codes from word `words[0]` on; n_words words may be read.
template <int kBits>
KVC_INLINE Floats unpack16(const int32_t* words, int64_t n_words) {
  if constexpr (kBits == 2) {
    const Ints shifts = {0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30};
    return __builtin_convertvector(((Ints{} + words[0]) >> shifts) & 3, Floats);
  } else if constexpr (kBits == 4) {
    const int32_t a = words[0], b = n_words > 1 ? words[1] : 0;
    const Ints both = {a, a, a, a, a, a, a, a, b, b, b, b, b, b, b, b};
    const Ints shifts = {0, 4, 8, 12, 16, 20, 24, 28, 0, 4, 8, 12, 16, 20, 24, 28};
    return __builtin_convertvector((both >> shifts) & 15, Floats);
  } else {
    int32_t four[4] = {};
    std::memcpy(four, words, 4 * static_cast<size_t>(n_words < 4 ? n_words : 4));
    return __builtin_convertvector(load<Bytes>(n_words < 4 ? four : words), Floats);
  }
}

template <int kBits>
KVC_INLINE void unpack(const int32_t* words, int64_t n_words, float* out) {
  constexpr int64_t kStep = kLanes * kBits / 32;  // words a vector
  for (int64_t w = 0; w < n_words; w += kStep, out += kLanes) store(unpack16<kBits>(words + w, n_words - w), out);
}

KVC_INLINE float dot(const float* a, const float* b, int64_t n) {
  Floats sums = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) sums += load<Floats>(a + i) * load<Floats>(b + i);
  float sum = total(sums);
  for (; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

KVC_INLINE void axpy(float w, const float* x, int64_t n, float* y) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store(load<Floats>(y + i) + w * load<Floats>(x + i), y + i);
  for (; i < n; ++i) y[i] += w * x[i];
}

template <int kBits, int kQ>
KVC_INLINE void score_token_groups_of(const Codes& k, ConstRows q, Rows scores) {
  float scaled_q[kMaxHeadDim * kQ];  // [D, n_q]: q_j * scale_j
  for (int64_t group = 0; group < k.n_groups; ++group) {
    float bias[kQ] = {};  // sum_j q_j zero_j
    for (int64_t j = 0; j < k.head_dim; ++j) {
      const float scale = k.scale[j * k.n_groups + group], zero = k.zero[j * k.n_groups + group];
      for (int i = 0; i < kQ; ++i) {
        scaled_q[j * kQ + i] = q.data[i * q.stride + j] * scale;
        bias[i] += q.data[i * q.stride + j] * zero;
      }
    }
    const int64_t end = std::min(k.n_tokens, (group + 1) * k.group_size);
    for (int64_t t = group * k.group_size; t < end; t += kLanes) {  // groups begin at whole words
      const int64_t word = t * kBits / 32, n_words = k.n_words - word;
      Floats sums[kQ] = {};
      for (int64_t j = 0; j < k.head_dim; ++j) {
        const Floats codes = unpack16<kBits>(k.words + j * k.n_words + word, n_words);
        for (int i = 0; i < kQ; ++i) sums[i] += scaled_q[j * kQ + i] * codes;
      }
      const int64_t n = std::min(kLanes, end - t);
      for (int i = 0; i < kQ; ++i) {
        float lanes[kLanes];
        store(sums[i], lanes);
        for (int64_t l = 0; l < n; ++l) scores.data[i * scores.stride + t + l] += lanes[l] + bias[i];
      }
    }
  }
}

KVC_INLINE void shift(float* x, int64_t n, float by) {
  for (int64_t i = 0; i < n; ++i) x[i] += by;
}

template <int kBits, int kQ>
KVC_INLINE void score_channel_groups_of(const Codes& k, ConstRows q, Rows scores) {
  alignas(64) float codes[kRow];
  float sum_q[kQ * kMaxHeadDim];  // [n_q, n_groups]: sum of q over the group
  for (int i = 0; i < kQ; ++i) {
    for (int64_t g = 0; g < k.n_groups; ++g) {
      float sum = 0;
      for (int64_t j = 0; j < k.group_size; ++j) sum += q.data[i * q.stride + g * k.group_size + j];
      sum_q[i * k.n_groups + g] = sum;
    }
  }
  for (int64_t t = 0; t < k.n_tokens; ++t) {
    unpack<kBits>(k.words + t * k.n_words, k.n_words, codes);
    if (k.middle != 0) shift(codes, k.head_dim, -k.middle);
    for (int i = 0; i < kQ; ++i) {
      float score = 0;
      for (int64_t g = 0; g < k.n_groups; ++g) {
        const int64_t j = g * k.group_size, side = t * k.n_groups + g;
        score += k.scale[side] * dot(q.data + i * q.stride + j, codes + j, k.group_size) +
                 k.zero[side] * sum_q[i * k.n_groups + g];
      }
      scores.data[i * scores.stride + t] += score;
    }
  }
}

template <int kBits, int kQ>
KVC_INLINE void weigh_channel_groups_of(const Codes& v, ConstRows weights, Rows out) {
  alignas(64) float codes[kRow];
  alignas(64) float sums[kQ * kMaxHeadDim];  // [n_q, D]
  float bias[kQ * kMaxHeadDim];              // [n_q, n_groups]: sum of weight * zero
  std::fill_n(sums, kQ * v.head_dim, 0.f);
  std::fill_n(bias, kQ * v.n_groups, 0.f);
  for (int64_t t = 0; t < v.n_tokens; ++t) {
    unpack<kBits>(v.words + t * v.n_words, v.n_words, codes);
    if (v.middle != 0) shift(codes, v.head_dim, -v.middle);
    for (int i = 0; i < kQ; ++i) {
      const float weight = weights.data[i * weights.stride + t];
      for (int64_t g = 0; g < v.n_groups; ++g) {
        const int64_t j = g * v.group_size, side = t * v.n_groups + g;
        axpy(weight * v.scale[side], codes + j, v.group_size, sums + i * v.head_dim + j);
        bias[i * v.n_groups + g] += weight * v.zero[side];
      }
    }
  }
  for (int i = 0; i < kQ; ++i) {
    for (int64_t j = 0; j < v.head_dim; ++j) {
      out.data[i * out.stride + j] += sums[i * v.head_dim + j] + bias[i * v.n_groups + j / v.group_size];
    }
  }
}

}  // namespace

KVC_CLONES void to_float(const uint16_t* x, int64_t n, float* out) { halves_to_floats(x, n, out); }

// function<bits, n_q> over the query heads in runs of 4, 2 and 1.
#define KVC_BY_QUERIES(function, kBits)                       \
  for (int64_t i = 0; i < in.n;) {                            \
    const ConstRows a{in.data + i * in.stride, in.stride, 0}; \
    const Rows b{out.data + i * out.stride, out.stride, 0};   \
    const int64_t left = in.n - i;                            \
    if (left >= kQueries)                                     \
      function<kBits, kQueries>(codes, a, b), i += kQueries;  \
    else if (left >= 2)                                       \
      function<kBits, 2>(codes, a, b), i += 2;                \
    else                                                      \
      function<kBits, 1>(codes, a, b), i += 1;                \
  }
#define KVC_BY_BITS(function)   \
  if (codes.bits == 2) {        \
    KVC_BY_QUERIES(function, 2) \
  } else if (codes.bits == 4) { \
    KVC_BY_QUERIES(function, 4) \
  } else {                      \
    KVC_BY_QUERIES(function, 8) \
  }

KVC_CLONES void score_token_groups(const Codes& codes, ConstRows in,
                                   Rows out){KVC_BY_BITS(score_token_groups_of)} KVC_CLONES
    void score_channel_groups(const Codes& codes, ConstRows in,
                              Rows out){KVC_BY_BITS(score_channel_groups_of)} KVC_CLONES
    void weigh_channel_groups(const Codes& codes, ConstRows in, Rows out) {
  KVC_BY_BITS(weigh_channel_groups_of)
}

}  // namespace kvc::kernels
