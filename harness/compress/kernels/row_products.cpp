#include "kernels/row_products.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <vector>

#include "kernels/lanes.h"
#include "kernels/this_machine.h"

namespace kvc::kernels {
namespace {

// kAhead in entries
template <class W>
constexpr int64_t prefetched() {
  return kAhead / static_cast<int64_t>(sizeof(W));
}

KVC_INLINE int64_t padded(int64_t n, int64_t block) { return (n + block - 1) / block * block; }

using Eight = Sixteen<float>::Half;
using EightInts = Sixteen<int32_t>::Half;
using Pair = Sixteen<float>;
template <class V>
constexpr bool kIsPair = std::is_same_v<V, Pair>;

// 4-byte words of weights -> their steps, a lane for each word. F, I: Floats and Ints, or Eight and EightInts
template <class I, class F>
KVC_INLINE void unpack_words(I v, const float*, F* steps) {
  steps[0] = (F)v;
}
template <class I, class F>
KVC_INLINE void unpack_words(I v, const Bf16*, F* steps) {
  steps[0] = (F)(v << 16);
  steps[1] = (F)(v & ~0xffff);
}
template <class I, class F>
KVC_INLINE void unpack_words(I v, const Fp16*, F* steps) {
  const I halves[2] = {v << 16, v & ~0xffff};
  for (int s = 0; s < 2; ++s) {
    steps[s] = (F)((halves[s] >> 3) & static_cast<int32_t>(0x8fffe000)) * 0x1p112f;  // sign, exponent, fraction
  }
}
template <class I, class F>
KVC_INLINE void unpack_words(I v, const int8_t*, F* steps) {
  steps[0] = __builtin_convertvector((v << 24) >> 24, F);
  steps[1] = __builtin_convertvector((v << 16) >> 24, F);
  steps[2] = __builtin_convertvector((v << 8) >> 24, F);
  steps[3] = __builtin_convertvector(v >> 24, F);
}

// A block of 64 bytes of weights -> its steps, 16 lanes each
template <class W>
KVC_INLINE void unpack(const W* w, Floats* steps) {
  unpack_words(words(w), w, steps);
}
template <class W>
KVC_INLINE void unpack(const W* w, Pair* steps) {
  constexpr int kSteps = 4 / sizeof(W);
  Eight low[kSteps], high[kSteps];
  unpack_words(load<EightInts>(w), w, low);
  unpack_words(load<EightInts>(w + block_size<W>() / 2), w, high);
  for (int s = 0; s < kSteps; ++s) steps[s] = {low[s], high[s]};
}

// y [kRows, kColumns] of x [kRows, k_padded] and kColumns rows of w
template <class V, int kRows, int kColumns, class W>
KVC_INLINE void multiply_tile(const float* x, const W* w, int64_t k, float* y, int64_t y_stride) {
  constexpr int kSteps = 4 / sizeof(W);
  constexpr int64_t kBlock = block_size<W>();
  const int64_t k_padded = padded(k, kBlock);
  V sums[kRows][kColumns] = {};
  const auto add_block = [&](int64_t i, const W* const* blocks) __attribute__((always_inline)) {
    V weights[kColumns][kSteps];
    for (int c = 0; c < kColumns; ++c) unpack(blocks[c], weights[c]);
    for (int s = 0; s < kSteps; ++s) {
      for (int r = 0; r < kRows; ++r) {
        const V row = load<V>(x + r * k_padded + i + s * kLanes);
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

// A tile's sums and weights are as many as registers hold: 4 rows by 4 columns of Floats, 2 by 2 of Pairs.
template <class V, int kColumns, class W>
KVC_INLINE void multiply_columns(const float* x, int64_t n_rows, int64_t k, const W* w, float* y, int64_t y_stride) {
  const int64_t k_padded = padded(k, block_size<W>());
  int64_t row = 0;
  for (; !kIsPair<V> && row + 4 <= n_rows; row += 4) {
    multiply_tile<V, 4, kColumns>(x + row * k_padded, w, k, y + row * y_stride, y_stride);
  }
  constexpr int kNarrow = kIsPair<V> && kColumns == 4 ? 2 : kColumns;
  for (; row + 2 <= n_rows; row += 2) {
    for (int c = 0; c < kColumns; c += kNarrow) {
      multiply_tile<V, 2, kNarrow>(x + row * k_padded, w + c * k, k, y + row * y_stride + c, y_stride);
    }
  }
  for (; row < n_rows; ++row) {
    multiply_tile<V, 1, kColumns>(x + row * k_padded, w, k, y + row * y_stride, y_stride);
  }
}

template <class V, class W>
KVC_INLINE void multiply(const float* x, int64_t n_rows, int64_t k, const W* w, int64_t first, int64_t end, float* y,
                         int64_t y_stride) {
  int64_t column = first;
  for (; column + 4 <= end; column += 4) multiply_columns<V, 4>(x, n_rows, k, w + column * k, y + column, y_stride);
  for (; column < end; ++column) multiply_columns<V, 1>(x, n_rows, k, w + column * k, y + column, y_stride);
}

// Whether sums begin at 0 and are added to y, or go on from y.
enum class Sum { added, continued };

// Channels j ... j + kBlocks * block of y [kRows, dim]
template <class V, int kRows, int kBlocks, Sum kSum, class W>
KVC_INLINE void mix_tile(const float* x, int64_t x_stride, const W* w, int64_t n_tokens, int64_t dim, float* y,
                         int64_t y_stride) {
  constexpr int kSteps = 4 / sizeof(W);
  constexpr int64_t kBlock = block_size<W>();
  static_assert(kSum == Sum::added || kSteps == 1);
  V sums[kRows][kBlocks][kSteps] = {};
  if constexpr (kSum == Sum::continued) {
    for (int r = 0; r < kRows; ++r) {
      for (int b = 0; b < kBlocks; ++b) sums[r][b][0] = load<V>(y + r * y_stride + b * kBlock);
    }
  }
  for (int64_t t = 0; t < n_tokens; ++t) {
    for (int b = 0; b < kBlocks; ++b) {
      V values[kSteps];
      unpack(w + t * dim + b * kBlock, values);
      __builtin_prefetch(w + t * dim + b * kBlock + prefetched<W>());
      for (int r = 0; r < kRows; ++r) {
        for (int s = 0; s < kSteps; ++s) sums[r][b][s] += x[r * x_stride + t] * values[s];
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int b = 0; b < kBlocks; ++b) {
      float* to = y + r * y_stride + b * kBlock;
      for (int s = 0; s < kSteps; ++s) {
        const V sum = sums[r][b][s];
        if constexpr (kSum == Sum::continued) {
          store(sum, to);
        } else if constexpr (kSteps == 1) {
          store(load<V>(to) + sum, to);
        } else {
          for (int64_t l = 0; l < kLanes; ++l) to[l * kSteps + s] += sum[l];
        }
      }
    }
  }
}

// The channels behind the last whole block
template <Sum kSum, class W>
KVC_INLINE void mix_rest(const float* x, int64_t x_stride, int64_t n_rows, const W* w, int64_t n_tokens, int64_t dim,
                         int64_t first, float* y, int64_t y_stride) {
  constexpr int64_t kBlock = block_size<W>();
  for (int64_t r = 0; r < n_rows; ++r) {
    float sums[kBlock] = {};
    if (kSum == Sum::continued) std::copy_n(y + r * y_stride + first, dim - first, sums);
    for (int64_t t = 0; t < n_tokens; ++t) {
      W block[kBlock] = {};
      std::memcpy(block, w + t * dim + first, static_cast<size_t>(dim - first) * sizeof(W));
      Floats values[4 / sizeof(W)];
      unpack(block, values);
      for (int64_t j = 0; j < dim - first; ++j) {
        sums[j] += x[r * x_stride + t] * values[j % (4 / sizeof(W))][j / static_cast<int64_t>(4 / sizeof(W))];
      }
    }
    for (int64_t j = 0; j < dim - first; ++j) {
      float& to = y[r * y_stride + first + j];
      to = kSum == Sum::continued ? sums[j] : to + sums[j];
    }
  }
}

// Sums are as many as registers hold: of Floats 16 for four rows and 8 for one, of Pairs 4.
template <class V, int kRows, Sum kSum, class W>
KVC_INLINE void mix_channels(const float* x, int64_t x_stride, const W* w, int64_t n_tokens, int64_t dim, float* y,
                             int64_t y_stride) {
  constexpr int64_t kBlock = block_size<W>();
  int64_t j = 0;
  constexpr int kWide = kIsPair<V> ? std::max<int>(1, sizeof(W) / kRows) : sizeof(W) * (kRows == 1 ? 2 : 1);
  for (; j + kWide * kBlock <= dim; j += kWide * kBlock) {
    mix_tile<V, kRows, kWide, kSum>(x, x_stride, w + j, n_tokens, dim, y + j, y_stride);
  }
  if constexpr (kWide > 2) {
    for (; j + kWide / 2 * kBlock <= dim; j += kWide / 2 * kBlock) {
      mix_tile<V, kRows, kWide / 2, kSum>(x, x_stride, w + j, n_tokens, dim, y + j, y_stride);
    }
  }
  for (; j + kBlock <= dim; j += kBlock)
    mix_tile<V, kRows, 1, kSum>(x, x_stride, w + j, n_tokens, dim, y + j, y_stride);
}

template <class V, Sum kSum, class W>
KVC_INLINE void mix_whole(const float* x, int64_t x_stride, int64_t n_rows, const W* w, int64_t n_tokens, int64_t dim,
                          float* y, int64_t y_stride) {
  int64_t done = dim / block_size<W>() * block_size<W>();
  int64_t row = 0;
  for (; row + 4 <= n_rows; row += 4) {
    mix_channels<V, 4, kSum>(x + row * x_stride, x_stride, w, n_tokens, dim, y + row * y_stride, y_stride);
  }
  for (; row < n_rows; ++row) {
    mix_channels<V, 1, kSum>(x + row * x_stride, x_stride, w, n_tokens, dim, y + row * y_stride, y_stride);
  }
  if (done < dim) mix_rest<kSum>(x, x_stride, n_rows, w, n_tokens, dim, done, y, y_stride);
}

// Of many rows and tokens the values are read in parts that stay in a cache; a sum goes on from part to part, so its bits
// are those of the whole.
template <class V, class W>
KVC_INLINE void mix(const float* x, int64_t x_stride, int64_t n_rows, const W* w, int64_t n_tokens, int64_t dim,
                    float* y, int64_t y_stride) {
  constexpr int64_t kPart = 256;  // tokens
  if constexpr (sizeof(W) == sizeof(float)) {
    if (n_rows > 8 && n_tokens > kPart) {
      std::vector<float> sums(static_cast<size_t>(n_rows * dim));
      for (int64_t t = 0; t < n_tokens; t += kPart) {
        mix_whole<V, Sum::continued>(x + t, x_stride, n_rows, w + t * dim, std::min(kPart, n_tokens - t), dim,
                                     sums.data(), dim);
      }
      for (int64_t r = 0; r < n_rows; ++r) {
        for (int64_t j = 0; j < dim; ++j) y[r * y_stride + j] += sums[static_cast<size_t>(r * dim + j)];
      }
      return;
    }
  }
  mix_whole<V, Sum::added>(x, x_stride, n_rows, w, n_tokens, dim, y, y_stride);
}

// exp(x) for |x| <= 87, relative error 2e-7
template <class F>
KVC_INLINE F exp_of(F x) {
  using Integers = std::conditional_t<sizeof(F) == sizeof(Floats), Ints, EightInts>;
  constexpr float kRound = 12582912.f;  // 1.5 * 2^23: adding and subtracting it rounds half to even
  const F n = (x * 1.44269504f + kRound) - kRound;
  const F r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  F p = F{} + 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.f;
  return p * (F)((__builtin_convertvector(n, Integers) + 127) << 23);
}

// The same loop for three machines, see KVC_CLONES.
#if defined(__x86_64__)
#define KVC_FOR_V4 __attribute__((target("arch=x86-64-v4")))
#define KVC_FOR_V3 __attribute__((target("arch=x86-64-v3")))
#else
#define KVC_FOR_V4
#define KVC_FOR_V3
#endif

template <class Loop, class... A>
KVC_FOR_V4 void on_v4(A... arguments) {
  Loop::template run<Floats>(arguments...);
}
template <class Loop, class... A>
KVC_FOR_V3 void on_v3(A... arguments) {
  Loop::template run<typename Loop::OnV3>(arguments...);
}
template <class Loop, class... A>
void on_any(A... arguments) {
  Loop::template run<Floats>(arguments...);
}
template <class Loop, class... A>
void on_this_machine(A... arguments) {
  of_this_level(on_v4<Loop, A...>, on_v3<Loop, A...>, on_any<Loop, A...>)(arguments...);
}

struct Multiply {
  using OnV3 = Pair;
  template <class V, class... A>
  static KVC_INLINE void run(A... arguments) {
    multiply<V>(arguments...);
  }
};
struct Mix {
  using OnV3 = Pair;
  template <class V, class... A>
  static KVC_INLINE void run(A... arguments) {
    mix<V>(arguments...);
  }
};

// F: Floats, or Eight, of which two make the 16 lanes
template <class F>
KVC_INLINE void softmax_of(float* x, int64_t n, const float* sink) {
  constexpr int64_t kWidth = sizeof(F) / sizeof(float);
  constexpr int kParts = kLanes / kWidth;
  const int64_t whole = n / kLanes * kLanes;
  const auto n_left = static_cast<size_t>(n - whole) * sizeof(float);
  alignas(64) float last[kLanes];
  std::fill_n(last, kLanes, x[0]);
  std::memcpy(last, x + whole, n_left);
  F tops = load<F>(last);
  for (int part = 1; part < kParts; ++part) {
    const F other = load<F>(last + part * kWidth);
    tops = other > tops ? other : tops;
  }
  for (int64_t i = 0; i < whole; i += kWidth) {
    const F part = load<F>(x + i);
    tops = part > tops ? part : tops;
  }
  float top = tops[0];
  for (int64_t l = 1; l < kWidth; ++l) top = tops[l] > top ? tops[l] : top;
  if (sink) top = std::max(top, *sink);
  const auto weight = [top](F part) __attribute__((always_inline)) {
    part -= top;
    return exp_of(part < -87.f ? F{} - 87.f : part);
  };
  F sums[kParts] = {};
  for (int64_t i = 0; i < whole; i += kLanes) {
    for (int part = 0; part < kParts; ++part) {
      float* const at = x + i + part * kWidth;
      const F weights = weight(load<F>(at));
      sums[part] += weights;
      store(weights, at);
    }
  }
  if (n_left > 0) {
    std::fill_n(last, kLanes, top - 1000.f);  // lanes past the end have weight 0
    std::memcpy(last, x + whole, n_left);
    for (int part = 0; part < kParts; ++part) {
      const F weights = weight(load<F>(last + part * kWidth));
      sums[part] += weights;
      store(weights, last + part * kWidth);
    }
    std::memcpy(x + whole, last, n_left);
  }
  for (int part = 0; part < kParts; ++part) store(sums[part], last + part * kWidth);
  const float factor = 1.f / (total(load<Floats>(last)) + (sink ? std::exp(*sink - top) : 0.f));
  for (int64_t i = 0; i < n; ++i) x[i] *= factor;
}

struct Softmax {
  using OnV3 = Eight;
  template <class F>
  static KVC_INLINE void run(float* x, int64_t n, const float* sink) {
    softmax_of<F>(x, n, sink);
  }
};

// x / (1 + exp(-gate(x)))
template <class F, class Gate>
KVC_INLINE F gated(F value, const Gate& gate) {
  F negated = -gate(value);
  negated = negated > 87.f ? F{} + 87.f : negated;
  negated = negated < -87.f ? F{} - 87.f : negated;
  return value / (1.f + exp_of(negated));
}

template <class F, class Gate>
KVC_INLINE void gate_rows(float* x, int64_t n, const Gate& gate) {
  constexpr int64_t kWidth = sizeof(F) / sizeof(float);
  int64_t i = 0;
  for (; i + kWidth <= n; i += kWidth) store(gated(load<F>(x + i), gate), x + i);
  if (i == n) return;
  const auto n_left = static_cast<size_t>(n - i) * sizeof(float);
  F rest = {};
  std::memcpy(&rest, x + i, n_left);
  rest = gated(rest, gate);
  std::memcpy(x + i, &rest, n_left);
}

struct TimesAlpha {
  float alpha;
  template <class F>
  KVC_INLINE F operator()(const F& x) const {
    return x * alpha;
  }
};
struct GeluGate {  // 0.5 (1 + tanh(u)) = 1 / (1 + exp(-2u))
  template <class F>
  KVC_INLINE F operator()(const F& x) const {
    constexpr float kTwice = 1.5957691216057308f, kCubic = 0.044715f;  // 2 sqrt(2 / pi)
    return kTwice * (x + kCubic * x * x * x);
  }
};

struct GateRows {
  using OnV3 = Eight;
  template <class F, class Gate>
  static KVC_INLINE void run(float* x, int64_t n, Gate gate) {
    gate_rows<F>(x, n, gate);
  }
};

}  // namespace

template <class W>
void multiply_rows(const float* x, int64_t n_rows, int64_t k, const W* w, int64_t first, int64_t end, float* y,
                   int64_t y_stride) {
  on_this_machine<Multiply>(x, n_rows, k, w, first, end, y, y_stride);
}
template void multiply_rows(const float*, int64_t, int64_t, const float*, int64_t, int64_t, float*, int64_t);
template void multiply_rows(const float*, int64_t, int64_t, const Bf16*, int64_t, int64_t, float*, int64_t);
template void multiply_rows(const float*, int64_t, int64_t, const Fp16*, int64_t, int64_t, float*, int64_t);
template void multiply_rows(const float*, int64_t, int64_t, const int8_t*, int64_t, int64_t, float*, int64_t);

template <class W>
void mix_rows(const float* x, int64_t x_stride, int64_t n_rows, const W* w, int64_t n_tokens, int64_t dim, float* y,
              int64_t y_stride) {
  on_this_machine<Mix>(x, x_stride, n_rows, w, n_tokens, dim, y, y_stride);
}
template void mix_rows(const float*, int64_t, int64_t, const float*, int64_t, int64_t, float*, int64_t);
template void mix_rows(const float*, int64_t, int64_t, const Bf16*, int64_t, int64_t, float*, int64_t);
template void mix_rows(const float*, int64_t, int64_t, const Fp16*, int64_t, int64_t, float*, int64_t);

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

void softcap(float* x, int64_t n, float cap) {
  for (int64_t i = 0; i < n; ++i) x[i] = cap * std::tanh(x[i] / cap);
}

KVC_CLONES double sum_of_squares(const float* x, const float* y, int64_t n) {
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

void softmax(float* x, int64_t n, const float* sink) {
  if (n == 0) return;
  on_this_machine<Softmax>(x, n, sink);
}
void silu(float* x, int64_t n, float alpha) { on_this_machine<GateRows>(x, n, TimesAlpha{alpha}); }
void gelu_tanh(float* x, int64_t n) { on_this_machine<GateRows>(x, n, GeluGate{}); }

}  // namespace kvc::kernels
