#include "codec.h"

#include <kvc/clones.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace kvquant::codec {
namespace {

// 32 codes of B bits fill B words.
template <int B>
inline __attribute__((always_inline)) void unpack_of(const int32_t* words, int64_t m, uint8_t* codes) {
  constexpr uint32_t kMask = (1u << B) - 1;
  for (; m >= 32; m -= 32, words += B, codes += 32) {
    uint32_t w[B + 1] = {};
    std::memcpy(w, words, B * sizeof(uint32_t));
#pragma GCC unroll 32
    for (int i = 0; i < 32; ++i) {
      const int word = i * B / 32, shift = i * B % 32;
      uint32_t code = w[word] >> shift;
      if (shift + B > 32) code |= w[word + 1] << (32 - shift);
      codes[i] = static_cast<uint8_t>(code & kMask);
    }
  }
  for (int64_t i = 0; i < m; ++i) {
    uint32_t code = 0;
    for (int bit = 0; bit < B; ++bit) {
      const int64_t at = i * B + bit;
      code |= (static_cast<uint32_t>(words[at / 32]) >> (at % 32) & 1u) << bit;
    }
    codes[i] = static_cast<uint8_t>(code);
  }
}

}  // namespace

float quantile(std::vector<float>& x, double p) {
  const double at = p * static_cast<double>(x.size() - 1);
  const auto below = static_cast<size_t>(std::floor(at));
  const auto nth = x.begin() + static_cast<std::ptrdiff_t>(below);
  std::nth_element(x.begin(), nth, x.end());
  const float a = *nth, b = nth + 1 == x.end() ? a : *std::min_element(nth + 1, x.end());
  const auto weight = static_cast<float>(at - std::floor(at));
  return weight < 0.5f ? a + weight * (b - a) : b - (b - a) * (1 - weight);
}

Bounds bounds_between(const float* x, int64_t n, float lower, float upper) {
  Bounds bounds{std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()};
  for (int64_t i = 0; i < n; ++i) {
    if (is_outlier(x[i], lower, upper, true)) continue;
    bounds.smallest = std::min(bounds.smallest, x[i]), bounds.largest = std::max(bounds.largest, x[i]);
  }
  if (bounds.smallest > bounds.largest) return {lower, lower};
  return bounds;
}

float normalized(float x, float zero, float scale) {
  constexpr float kHuge = 3e38f;
  const float z = (x - zero) / scale;
  if (std::isnan(z)) return 0;
  return std::clamp(z, -kHuge, kHuge);
}

KVC_CLONES void unpack(const int32_t* words, int64_t m, int64_t bits, uint8_t* codes) {
  if (bits == 2) unpack_of<2>(words, m, codes);
  if (bits == 3) unpack_of<3>(words, m, codes);
  if (bits == 4) unpack_of<4>(words, m, codes);
}

KVC_CLONES void decode_by_channel(const uint8_t* codes, int64_t n, const float* level, const float* zero,
                                  const float* scale, float* out) {
  for (int64_t j = 0; j < n; ++j) out[j] = level[codes[j]] * scale[j] + zero[j];
}

KVC_CLONES void decode_by_token(const uint8_t* codes, int64_t n, const float* value, float* out) {
  for (int64_t j = 0; j < n; ++j) out[j] = value[codes[j]];
}

}  // namespace kvquant::codec
