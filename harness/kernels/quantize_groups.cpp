#include "kernels/quantize_groups.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/lanes.h"

namespace kvc::kernels {
namespace {

// fp32 -> fp16 bits, half to even, by integer arithmetic that vectorizes. Beyond the largest half: infinity.
inline uint32_t half_bits(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  // Subnormal halves: adding 0.5 puts the half's last bit at the float's last bit, and the hardware rounds.
  const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
  const uint32_t small = std::bit_cast<uint32_t>(shifted) - 0x3f000000u;
  const uint32_t normal = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  const uint32_t finite = magnitude < 0x38800000u ? small : normal;
  return sign | (magnitude >= 0x477ff000u ? 0x7c00u : finite);
}

struct Range {
  float low, high;
};

inline Range range_of(const float* x, int64_t n) {
  float low[kLanes], high[kLanes];
  for (int64_t l = 0; l < kLanes; ++l) low[l] = high[l] = x[0];
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int64_t l = 0; l < kLanes; ++l) {
      low[l] = x[i + l] < low[l] ? x[i + l] : low[l];
      high[l] = x[i + l] > high[l] ? x[i + l] : high[l];
    }
  }
  for (; i < n; ++i) {
    low[0] = x[i] < low[0] ? x[i] : low[0];
    high[0] = x[i] > high[0] ? x[i] : high[0];
  }
  Range range{low[0], high[0]};
  for (int64_t l = 1; l < kLanes; ++l) {
    range.low = low[l] < range.low ? low[l] : range.low;
    range.high = high[l] > range.high ? high[l] : range.high;
  }
  return range;
}

// Over the entries that take part; {0, 0} where none does.
inline Range range_without(const float* x, const uint8_t* left_out, int64_t n) {
  Range range{std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()};
  for (int64_t i = 0; i < n; ++i) {
    if (left_out[i]) continue;
    range.low = x[i] < range.low ? x[i] : range.low;
    range.high = x[i] > range.high ? x[i] : range.high;
  }
  return range.low > range.high ? Range{0, 0} : range;
}

inline void encode(const float* x, int64_t n, float scale, float zero, float levels, uint8_t* codes) {
  constexpr float kRound = 12582912.f;  // 1.5 * 2^23: adding and subtracting it rounds half to even
  for (int64_t i = 0; i < n; ++i) {
    float code = (x[i] - zero) / scale;
    code = code < 0.f ? 0.f : code;
    code = code > levels ? levels : code;
    codes[i] = static_cast<uint8_t>(static_cast<int32_t>((code + kRound) - kRound));
  }
}

}  // namespace

KVC_CLONES bool quantize_groups(const QuantizeGroups& job) {
  bool finite = true;
  for (int64_t group = 0; group < job.n_groups; ++group) {
    const int64_t first = group * job.group_size;
    const float* x = job.x + first;
    const Range range =
        job.left_out ? range_without(x, job.left_out + first, job.group_size) : range_of(x, job.group_size);
    float zero = range.low;
    float scale = (range.high - range.low) / job.levels;
    if (job.half) {
      const uint32_t zero_bits = half_bits(zero), scale_bits = half_bits(scale);
      static_cast<uint16_t*>(job.zero)[group] = static_cast<uint16_t>(zero_bits);
      static_cast<uint16_t*>(job.scale)[group] = static_cast<uint16_t>(scale_bits);
      finite = finite && zero_bits != 0x7c00u && zero_bits != 0xfc00u && scale_bits != 0x7c00u;
      zero = half_value(zero_bits);
      scale = half_value(scale_bits);
    } else {
      static_cast<float*>(job.zero)[group] = zero;
      static_cast<float*>(job.scale)[group] = scale;
    }
    finite = finite && std::isfinite(zero) && std::isfinite(scale);
    if (scale == 0.f) {
      std::memset(job.codes + first, 0, static_cast<size_t>(job.group_size));
    } else {
      encode(x, job.group_size, scale, zero, job.levels, job.codes + first);
    }
  }
  return finite;
}

KVC_CLONES void transpose(const float* x, int64_t n_rows, int64_t n_columns, float* out) {
  constexpr int64_t kSquare = 16;
  for (int64_t row = 0; row < n_rows; row += kSquare) {
    const int64_t n = std::min(kSquare, n_rows - row);
    for (int64_t column = 0; column < n_columns; column += kSquare) {
      const int64_t end = std::min(n_columns, column + kSquare);
      for (int64_t j = column; j < end; ++j) {
        for (int64_t i = 0; i < n; ++i) out[j * n_rows + row + i] = x[(row + i) * n_columns + j];
      }
    }
  }
}

KVC_CLONES bool to_half(const float* x, int64_t n, uint16_t* out) {
  uint32_t beyond = 0;
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t bits = half_bits(x[i]);
    beyond |= (bits & 0x7fffu) >= 0x7c00u ? 1u : 0u;
    out[i] = static_cast<uint16_t>(bits);
  }
  return beyond == 0;
}

// A few groups at a time, so that their words stay in the first cache while each of their entries is read.
KVC_CLONES void decode_strided(const int32_t* words, int64_t n_groups, int64_t n_words, int64_t bits,
                               const float* scale, const float* zero, int64_t n, float* out) {
  constexpr int64_t kGroups = 512;
  const int32_t mask = (1 << bits) - 1;
  const int64_t per_word = 32 / bits, n_entries = (n + n_groups - 1) / n_groups;
  for (int64_t first = 0; first < n_groups; first += kGroups) {
    for (int64_t p = 0; p < n_entries; ++p) {
      const int64_t end = std::min({n_groups, first + kGroups, n - p * n_groups});
      const auto shift = static_cast<int32_t>(p % per_word * bits);
      const int32_t* word = words + p / per_word;
      float* to = out + p * n_groups;
      for (int64_t j = first; j < end; ++j) {
        to[j] = scale[j] * static_cast<float>((word[j * n_words] >> shift) & mask) + zero[j];
      }
    }
  }
}

}  // namespace kvc::kernels
