#include "kernels/row_products.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/lanes.h"

namespace kvc::kernels {
namespace {

// kAhead in entries
template <class W>
constexpr int64_t prefetched() {
  return kAhead / static_cast<int64_t>(sizeof(W));
}

KVC_INLINE int64_t padded(int64_t n, int64_t block) { return (n + block - 1) / block * block; }

// A block of 64 bytes of weights -> its steps, 16 lanes each
KVC_INLINE void unpack(const float* w, Floats* steps) { steps[0] = (Floats)words(w); }
KVC_INLINE void unpack(const Bf16* w, Floats* steps) {
  const Ints v = words(w);
  steps[0] = (Floats)(v << 16);
  steps[1] = (Floats)(v & ~0xffff);
}
KVC_INLINE void unpack(const Fp16* w, Floats* steps) {
  const Ints v = words(w);
  const Ints halves[2] = {v << 16, v & ~0xffff};
  for (int s = 0; s < 2; ++s) {
    steps[s] = (Floats)((halves[s] >> 3) & static_cast<int32_t>(0x8fffe000)) * 0x1p112f;  // sign, exponent, fraction
  }
}
KVC_INLINE void unpack(const int8_t* w, Floats* steps) {
  const Ints v = words(w);
  steps[0] = __builtin_convertvector((v << 24) >> 24, Floats);
  steps[1] = __builtin_convertvector((v << 16) >> 24, Floats);
  steps[2] = __builtin_convertvector((v << 8) >> 24, Floats);
  steps[3] = __builtin_convertvector(v >> 24, Floats);
}

// y [kRows, kColumns] of x [kRows, k_padded] and kColumns rows of w
template <int kRows, int kColumns, class W>
KVC_INLINE void multiply_tile(const float* x, const W* w, int64_t k, float* y, int64_t y_stride) {
  constexpr int kSteps = 4 / sizeof(W);
  constexpr int64_t kBlock = block_size<W>();
  const int64_t k_padded = padded(k, kBlock);
  Floats sums[kRows][kColumns] = {};
  const auto add_block = [&](int64_t i, const W* const* blocks) __attribute__((always_inline)) {
    Floats weights[kColumns][kSteps];
    for (int c = 0; c < kColumns; ++c) unpack(blocks[c], weights[c]);
    for (int s = 0; s < kSteps; ++s) {
      for (int r = 0; r < kRows; ++r) {
        const auto row = (Floats)words(x + r * k_padded + i + s * kLanes);
        for (int c = 0; c < kColumns; ++c) sums[r][c] += row * weights[c][s];
      }
    }
  };
  const int64_t ahead = std::max(kColumns * k, prefetched<W>());  // the next columns', or further
  const W* blocks[kColumns];
  int64_t i = 0;
  for (; i + kBlock <= k; i += kBlock) {
    for (int c = 0; c < kColumns; ++c) {
      blocks[c] = w + c * k + i;
      __builtin_prefetch(blocks[c] + ahead);
    }
    add_block(i, blocks);
  }
  if (i < k) {
    W rest[kColumns][kBlock] = {};
    for (int c = 0; c < kColumns; ++c) {
      blocks[c] = rest[c];
      std::memcpy(rest[c], w + c * k + i, static_cast<size_t>(k - i) * sizeof(W));
    }
    add_block(i, blocks);
  }
  for (int r = 0; r < kRows; ++r) {
    if constexpr (kColumns == 4) {
      add_totals(sums[r], y + r * y_stride);
    } else {
      for (int c = 0; c < kColumns; ++c) y[r * y_stride + c] += total(sums[r][c]);
    }
  }
}

template <int kColumns, class W>
KVC_INLINE void multiply_columns(const float* x, int64_t n_rows, int64_t k, const W* w, float* y, int64_t y_stride) {
  const int64_t k_padded = padded(k, block_size<W>());
  int64_t row = 0;
  for (; row + 4 <= n_rows; row += 4)
    multiply_tile<4, kColumns>(x + row * k_padded, w, k, y + row * y_stride, y_stride);
  for (; row + 2 <= n_rows; row += 2)
    multiply_tile<2, kColumns>(x + row * k_padded, w, k, y + row * y_stride, y_stride);
  for (; row < n_rows; ++row) multiply_tile<1, kColumns>(x + row * k_padded, w, k, y + row * y_stride, y_stride);
}

template <class W>
KVC_INLINE void multiply(const float* x, int64_t n_rows, int64_t k, const W* w, int64_t first, int64_t end, float* y,
                         int64_t y_stride) {
  int64_t column = first;
  for (; column + 4 <= end; column += 4) multiply_columns<4>(x, n_rows, k, w + column * k, y + column, y_stride);
  for (; column < end; ++column) multiply_columns<1>(x, n_rows, k, w + column * k, y + column, y_stride);
}

// Channels j ... j + kBlocks * block of y [kRows, dim]
template <int kRows, int kBlocks, class W>
KVC_INLINE void mix_tile(const float* x, int64_t x_stride, const W* w, int64_t n_tokens, int64_t dim, float* y,
                         int64_t y_stride) {
  constexpr int kSteps = 4 / sizeof(W);
  constexpr int64_t kBlock = block_size<W>();
  Floats sums[kRows][kBlocks][kSteps] = {};
  for (int64_t t = 0; t < n_tokens; ++t) {
    for (int b = 0; b < kBlocks; ++b) {
      Floats values[kSteps];
      unpack(w + t * dim + b * kBlock, values);
      __builtin_prefetch(w + t * dim + b * kBlock + prefetched<W>());
      for (int r = 0; r < kRows; ++r) {
        for (int s = 0; s < kSteps; ++s) sums[r][b][s] += x[r * x_stride + t] * values[s];
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int b = 0; b < kBlocks; ++b) {
      for (int s = 0; s < kSteps; ++s) {
        for (int64_t l = 0; l < kLanes; ++l) y[r * y_stride + b * kBlock + l * kSteps + s] += sums[r][b][s][l];
      }
    }
  }
}

// The channels behind the last whole block
template <class W>
KVC_INLINE void mix_rest(const float* x, int64_t x_stride, int64_t n_rows, const W* w, int64_t n_tokens, int64_t dim,
                         int64_t first, float* y, int64_t y_stride) {
  constexpr int64_t kBlock = block_size<W>();
  for (int64_t r = 0; r < n_rows; ++r) {
    float sums[kBlock] = {};
    for (int64_t t = 0; t < n_tokens; ++t) {
      W block[kBlock] = {};
      std::memcpy(block, w + t * dim + first, static_cast<size_t>(dim - first) * sizeof(W));
      Floats values[4 / sizeof(W)];
      unpack(block, values);
      for (int64_t j = 0; j < dim - first; ++j) {
        sums[j] += x[r * x_stride + t] * values[j % (4 / sizeof(W))][j / static_cast<int64_t>(4 / sizeof(W))];
      }
    }
    for (int64_t j = 0; j < dim - first; ++j) y[r * y_stride + first + j] += sums[j];
  }
}

template <int kRows, class W>
KVC_INLINE int64_t mix_channels(const float* x, int64_t x_stride, const W* w, int64_t n_tokens, int64_t dim, float* y,
                                int64_t y_stride) {
  constexpr int64_t kBlock = block_size<W>();
  int64_t j = 0;
  constexpr int kWide = sizeof(W) * (kRows == 1 ? 2 : 1);  // 128 channels at a time, or 64
  for (; j + kWide * kBlock <= dim; j += kWide * kBlock) {
    mix_tile<kRows, kWide>(x, x_stride, w + j, n_tokens, dim, y + j, y_stride);
  }
  for (; j + kWide / 2 * kBlock <= dim; j += kWide / 2 * kBlock) {
    mix_tile<kRows, kWide / 2>(x, x_stride, w + j, n_tokens, dim, y + j, y_stride);
  }
  for (; j + kBlock <= dim; j += kBlock) mix_tile<kRows, 1>(x, x_stride, w + j, n_tokens, dim, y + j, y_stride);
  return j;
}

template <class W>
KVC_INLINE void mix(const float* x, int64_t x_stride, int64_t n_rows, const W* w, int64_t n_tokens, int64_t dim,
                    float* y, int64_t y_stride) {
  int64_t done = dim / block_size<W>() * block_size<W>();
  int64_t row = 0;
  for (; row + 4 <= n_rows; row += 4) {
    mix_channels<4>(x + row * x_stride, x_stride, w, n_tokens, dim, y + row * y_stride, y_stride);
  }
  for (; row < n_rows; ++row) {
    mix_channels<1>(x + row * x_stride, x_stride, w, n_tokens, dim, y + row * y_stride, y_stride);
  }
  if (done < dim) mix_rest(x, x_stride, n_rows, w, n_tokens, dim, done, y, y_stride);
}

// exp(x) for |x| <= 87, relative error 2e-7
KVC_INLINE Floats exp_of(Floats x) {
  constexpr float kRound = 12582912.f;  // 1.5 * 2^23: adding and subtracting it rounds half to even
  const Floats n = (x * 1.44269504f + kRound) - kRound;
  const Floats r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  Floats p = Floats{} + 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.f;
  return p * (Floats)((__builtin_convertvector(n, Ints) + 127) << 23);
}

}  // namespace

#define KVC_FOR_WEIGHTS(W)                                                                                         \
  template <>                                                                                                      \
  KVC_CLONES void multiply_rows(const float* x, int64_t n_rows, int64_t k, const W* w, int64_t first, int64_t end, \
                                float* y, int64_t y_stride) {                                                      \
    multiply(x, n_rows, k, w, first, end, y, y_stride);                                                            \
  }
KVC_FOR_WEIGHTS(float)
KVC_FOR_WEIGHTS(Bf16)
KVC_FOR_WEIGHTS(Fp16)
KVC_FOR_WEIGHTS(int8_t)

#define KVC_FOR_VALUES(W)                                                                                  \
  template <>                                                                                              \
  KVC_CLONES void mix_rows(const float* x, int64_t x_stride, int64_t n_rows, const W* w, int64_t n_tokens, \
                           int64_t dim, float* y, int64_t y_stride) {                                      \
    mix(x, x_stride, n_rows, w, n_tokens, dim, y, y_stride);                                               \
  }
KVC_FOR_VALUES(float)
KVC_FOR_VALUES(Bf16)
KVC_FOR_VALUES(Fp16)

void interleave(const float* x, int64_t k, int64_t block_size, float* out) {
  const int64_t n_steps = block_size / kLanes, whole = k / block_size * block_size;
  for (int64_t i = 0; i < whole; i += block_size) {
    for (int64_t s = 0; s < n_steps; ++s) {
      for (int64_t l = 0; l < kLanes; ++l) out[i + s * kLanes + l] = x[i + l * n_steps + s];
    }
  }
  if (whole == k) return;
  std::fill_n(out + whole, block_size, 0.f);
  for (int64_t i = 0; i < k - whole; ++i) out[whole + i % n_steps * kLanes + i / n_steps] = x[whole + i];
}

KVC_CLONES void softmax(float* x, int64_t n, const float* sink) {
  if (n == 0) return;
  const int64_t whole = n / kLanes * kLanes;
  const auto n_left = static_cast<size_t>(n - whole) * sizeof(float);
  Floats last = Floats{} + x[0];
  std::memcpy(&last, x + whole, n_left);
  Floats tops = last;
  for (int64_t i = 0; i < whole; i += kLanes) {
    const auto part = load<Floats>(x + i);
    tops = part > tops ? part : tops;
  }
  float top = tops[0];
  for (int64_t l = 1; l < kLanes; ++l) top = tops[l] > top ? tops[l] : top;
  if (sink) top = std::max(top, *sink);
  const auto weight = [top](Floats part) __attribute__((always_inline)) {
    part -= top;
    return exp_of(part < -87.f ? Floats{} - 87.f : part);
  };
  Floats sums = {};
  for (int64_t i = 0; i < whole; i += kLanes) {
    const Floats part = weight(load<Floats>(x + i));
    sums += part;
    store(part, x + i);
  }
  if (n_left > 0) {
    Floats part = Floats{} + (top - 1000.f);  // lanes past the end have weight 0
    std::memcpy(&part, x + whole, n_left);
    part = weight(part);
    sums += part;
    std::memcpy(x + whole, &part, n_left);
  }
  const float factor = 1.f / (total(sums) + (sink ? std::exp(*sink - top) : 0.f));
  for (int64_t i = 0; i < n; ++i) x[i] *= factor;
}

void softcap(float* x, int64_t n, float cap) {
  for (int64_t i = 0; i < n; ++i) x[i] = cap * std::tanh(x[i] / cap);
}

KVC_CLONES double sum_of_squares(const float* x, const float* y, int64_t n) {
  typedef float Eight __attribute__((vector_size(32)));
  typedef double Doubles __attribute__((vector_size(64)));
  Doubles sums = {};
  for (int64_t i = 0; i < n; i += 8) {
    const auto bytes = static_cast<size_t>(std::min<int64_t>(8, n - i)) * sizeof(float);
    Eight a = {}, b = {};
    std::memcpy(&a, x + i, bytes);
    if (y) std::memcpy(&b, y + i, bytes);
    const Doubles difference = __builtin_convertvector(a - b, Doubles);
    sums += difference * difference;
  }
  double sum = 0;
  for (int lane = 0; lane < 8; ++lane) sum += sums[lane];
  return sum;
}

// x[i] / (1 + exp(-gate(x[i])))
template <class Gate>
KVC_INLINE void gate_rows(float* x, int64_t n, const Gate& gate) {
  for (int64_t i = 0; i < n; i += kLanes) {
    const int64_t lanes = std::min(kLanes, n - i);
    Floats value = {};
    std::memcpy(&value, x + i, static_cast<size_t>(lanes) * sizeof(float));
    Floats negated = -gate(value);
    negated = negated > 87.f ? Floats{} + 87.f : negated;
    negated = negated < -87.f ? Floats{} - 87.f : negated;
    const Floats result = value / (1.f + exp_of(negated));
    std::memcpy(x + i, &result, static_cast<size_t>(lanes) * sizeof(float));
  }
}

struct TimesAlpha {
  float alpha;
  KVC_INLINE Floats operator()(const Floats& x) const { return x * alpha; }
};
struct GeluGate {  // 0.5 (1 + tanh(u)) = 1 / (1 + exp(-2u))
  KVC_INLINE Floats operator()(const Floats& x) const {
    constexpr float kTwice = 1.5957691216057308f, kCubic = 0.044715f;  // 2 sqrt(2 / pi)
    return kTwice * (x + kCubic * x * x * x);
  }
};

KVC_CLONES void silu(float* x, int64_t n, float alpha) { gate_rows(x, n, TimesAlpha{alpha}); }
KVC_CLONES void gelu_tanh(float* x, int64_t n) { gate_rows(x, n, GeluGate{}); }

}  // namespace kvc::kernels
