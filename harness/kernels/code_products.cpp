#include "kernels/code_products.h"

#include <algorithm>

#include "kernels/lanes.h"
#include "kvc/check.h"

namespace kvc::kernels {
namespace {

constexpr int64_t kQueries = 4;                     // most query heads handled together
constexpr int64_t kRow = kMaxHeadDim + 2 * kLanes;  // a row of unpacked codes may end in padding

KVC_INLINE void halves_to_floats(const uint16_t* x, int64_t n, float* out) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const Ints bits = __builtin_convertvector(load<Shorts>(x + i), Ints);
    const Floats magnitude = (Floats)((bits & 0x7fff) << 13) * 0x1p112f;
    store((Ints)magnitude | (bits & 0x8000) << 16, out + i);
  }
  for (; i < n; ++i) out[i] = half_value(x[i]);
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

struct ScoreTokenGroups {
  template <int kBits, int kQ>
  KVC_INLINE void operator()(const Codes& k, ConstRows q, Rows scores) const {
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
};

KVC_INLINE void shift(float* x, int64_t n, float by) {
  for (int64_t i = 0; i < n; ++i) x[i] += by;
}

struct ScoreChannelGroups {
  template <int kBits, int kQ>
  KVC_INLINE void operator()(const Codes& k, ConstRows q, Rows scores) const {
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
};

struct WeighChannelGroups {
  template <int kBits, int kQ>
  KVC_INLINE void operator()(const Codes& v, ConstRows weights, Rows out) const {
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
};

// f<bits, n_q>(codes, in, out) for these codes, over the query heads in runs of 4, 2 and 1.
template <int kBits, class F>
KVC_INLINE void by_queries(const Codes& codes, ConstRows in, Rows out, F f) {
  for (int64_t i = 0; i < in.n;) {
    const ConstRows a{in.data + i * in.stride, in.stride, 0};
    const Rows b{out.data + i * out.stride, out.stride, 0};
    const int64_t left = in.n - i;
    if (left >= kQueries)
      f.template operator()<kBits, kQueries>(codes, a, b), i += kQueries;
    else if (left >= 2)
      f.template operator()<kBits, 2>(codes, a, b), i += 2;
    else
      f.template operator()<kBits, 1>(codes, a, b), i += 1;
  }
}

template <class F>
KVC_INLINE void by_bits(const Codes& codes, ConstRows in, Rows out, F f) {
  switch (codes.bits) {
    case 2:
      return by_queries<2>(codes, in, out, f);
    case 4:
      return by_queries<4>(codes, in, out, f);
    case 8:
      return by_queries<8>(codes, in, out, f);
    default:
      throw Error(concat("attention over codes of ", codes.bits, " bits, allowed: 2, 4, 8"));
  }
}

}  // namespace

KVC_CLONES void to_float(const uint16_t* x, int64_t n, float* out) { halves_to_floats(x, n, out); }

KVC_CLONES void score_token_groups(const Codes& k, ConstRows q, Rows scores) {
  by_bits(k, q, scores, ScoreTokenGroups());
}
KVC_CLONES void score_channel_groups(const Codes& k, ConstRows q, Rows scores) {
  by_bits(k, q, scores, ScoreChannelGroups());
}
KVC_CLONES void weigh_channel_groups(const Codes& v, ConstRows weights, Rows out) {
  by_bits(v, weights, out, WeighChannelGroups());
}

}  // namespace kvc::kernels
