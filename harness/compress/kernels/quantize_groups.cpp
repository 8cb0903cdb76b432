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

inline float smaller(float a, float b) { return a < b ? a : b; }
inline float larger(float a, float b) { return a > b ? a : b; }

// Not a number where an entry is none.
inline Range range_of(const float* x, int64_t n) {
  float low[kLanes], high[kLanes], none[kLanes] = {};
  for (int64_t l = 0; l < kLanes; ++l) low[l] = high[l] = x[0];
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int64_t l = 0; l < kLanes; ++l) {
      low[l] = smaller(x[i + l], low[l]), high[l] = larger(x[i + l], high[l]), none[l] += x[i + l] - x[i + l];
    }
  }
  for (; i < n; ++i) low[0] = smaller(x[i], low[0]), high[0] = larger(x[i], high[0]), none[0] += x[i] - x[i];
  for (int64_t half = kLanes / 2; half > 0; half /= 2) {
    for (int64_t l = 0; l < half; ++l) {
      low[l] = smaller(low[l], low[l + half]), high[l] = larger(high[l], high[l + half]), none[l] += none[l + half];
    }
  }
  return {low[0] + none[0], high[0] + none[0]};
}

// Over the entries that take part; {0, 0} where none does.
inline Range range_without(const float* x, const uint8_t* left_out, int64_t n) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  float low[kLanes], high[kLanes], none = 0;
  for (int64_t l = 0; l < kLanes; ++l) low[l] = kInfinity, high[l] = -kInfinity;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t l = i % kLanes;
    low[l] = smaller(left_out[i] ? kInfinity : x[i], low[l]),
    high[l] = larger(left_out[i] ? -kInfinity : x[i], high[l]);
    none += left_out[i] ? 0 : x[i] - x[i];
  }
  for (int64_t l = 1; l < kLanes; ++l) low[0] = smaller(low[0], low[l]), high[0] = larger(high[0], high[l]);
  return low[0] > high[0] && none == 0 ? Range{0, 0} : Range{low[0] + none, high[0] + none};
}

constexpr float kRound = 12582912.f;  // 1.5 * 2^23: adding and subtracting it rounds half to even

inline void encode(const float* x, int64_t n, float scale, float zero, float levels, uint8_t* codes) {
  for (int64_t i = 0; i < n; ++i) {
    float code = (x[i] - zero) / scale;
    code = code < 0.f ? 0.f : code;
    code = code > levels ? levels : code;
    codes[i] = static_cast<uint8_t>(static_cast<int32_t>((code + kRound) - kRound));
  }
}

inline void encode_symmetric(const float* x, int64_t n, float scale, float largest, uint8_t* codes) {
  for (int64_t i = 0; i < n; ++i) {
    float code = x[i] / scale;
    code = code < -largest ? -largest : code;
    code = code > largest ? largest : code;
    codes[i] = static_cast<uint8_t>(static_cast<int32_t>(((code + kRound) - kRound) + largest));
  }
}

// Where a scale or zero goes, and what is left of it there.
struct ScaleZero {
  void* data;
  bool half;

  float put(int64_t at, float value) const {
    if (!half) return static_cast<float*>(data)[at] = value;
    const uint32_t bits = half_bits(value);
    static_cast<uint16_t*>(data)[at] = static_cast<uint16_t>(bits);
    return (bits & 0x7fffu) >= 0x7c00u ? std::numeric_limits<float>::infinity() : half_value(bits);
  }
};

inline bool quantize_asymmetric(const QuantizeGroups& job, int64_t group) {
  const int64_t first = group * job.group_size;
  const auto levels = static_cast<float>((1 << job.bits) - 1);
  const float* x = job.x + first;
  uint8_t* codes = job.codes + first;
  const Range range =
      job.left_out ? range_without(x, job.left_out + first, job.group_size) : range_of(x, job.group_size);
  const float zero = ScaleZero{job.zero, job.half}.put(group, range.low);
  const float scale = ScaleZero{job.scale, job.half}.put(group, (range.high - range.low) / levels);
  if (!std::isfinite(zero) || !std::isfinite(scale)) return false;
  if (scale == 0.f) {
    std::memset(codes, 0, static_cast<size_t>(job.group_size));
  } else {
    encode(x, job.group_size, scale, zero, levels, codes);
  }
  return true;
}

inline bool quantize_symmetric(const QuantizeGroups& job, int64_t group) {
  constexpr float kLeast = 1e-5f;
  const int64_t first = group * job.group_size;
  const auto largest = static_cast<float>((1 << (job.bits - 1)) - 1);
  const Range range = range_of(job.x + first, job.group_size);
  const float top = larger(-range.low, range.high);
  const float wanted = top == 0 ? 0 : top < kLeast ? kLeast / largest : top / largest;
  const float scale = ScaleZero{job.scale, job.half}.put(group, wanted);
  if (!std::isfinite(scale)) return false;
  if (scale == 0.f) {
    std::memset(job.codes + first, static_cast<int>(largest), static_cast<size_t>(job.group_size));
  } else {
    encode_symmetric(job.x + first, job.group_size, scale, largest, job.codes + first);
  }
  return true;
}

template <class T>
inline void transpose_squares(const T* x, int64_t stride, int64_t n_rows, int64_t n_columns, T* out) {
  constexpr int64_t kSquare = 16;
  for (int64_t row = 0; row < n_rows; row += kSquare) {
    const int64_t n = std::min(kSquare, n_rows - row);
    for (int64_t column = 0; column < n_columns; column += kSquare) {
      const int64_t end = std::min(n_columns, column + kSquare);
      for (int64_t j = column; j < end; ++j) {
        for (int64_t i = 0; i < n; ++i) out[j * n_rows + row + i] = x[(row + i) * stride + j];
      }
    }
  }
}

// Eight codes of a byte each come together by halving what lies between them.
inline uint64_t together(uint64_t codes, int64_t bits) {
  codes = (codes | codes >> (8 - bits)) & 0x00ff00ff00ff00ffu & (bits == 2 ? 0x000f000f000f000fu : ~uint64_t{0});
  codes = (codes | codes >> (16 - 2 * bits)) & (bits == 2 ? 0x000000ff000000ffu : 0x0000ffff0000ffffu);
  return (codes | codes >> (32 - 4 * bits)) & (bits == 2 ? 0xffffu : 0xffffffffu);
}

}  // namespace

KVC_CLONES bool quantize_groups(const QuantizeGroups& job) {
  bool finite = true;
  for (int64_t group = 0; group < job.n_groups; ++group) {
    finite &= job.symmetric ? quantize_symmetric(job, group) : quantize_asymmetric(job, group);
  }
  return finite;
}

KVC_CLONES void transpose(const float* x, int64_t stride, int64_t n_rows, int64_t n_columns, float* out) {
  transpose_squares(x, stride, n_rows, n_columns, out);
}
KVC_CLONES void transpose(const uint8_t* x, int64_t stride, int64_t n_rows, int64_t n_columns, uint8_t* out) {
  transpose_squares(x, stride, n_rows, n_columns, out);
}

KVC_CLONES void pack(const uint8_t* codes, int64_t n_rows, int64_t len, int64_t bits, int32_t* words) {
  const bool whole = len * bits % 32 == 0;  // rows end with their words
  const int64_t n = whole ? n_rows * len : len, n_eights = bits == 8 ? 0 : n / 8, n_bytes = (n * bits + 31) / 32 * 4;
  for (int64_t row = 0; row < (whole ? 1 : n_rows); ++row, codes += len, words += n_bytes / 4) {
    auto* bytes = reinterpret_cast<uint8_t*>(words);
    if (bits == 2) {
      for (int64_t e = 0; e < n_eights; ++e) {
        const auto eight = static_cast<uint16_t>(together(load<uint64_t>(codes + 8 * e), 2));
        std::memcpy(bytes + 2 * e, &eight, 2);
      }
    } else if (bits == 4) {
      for (int64_t e = 0; e < n_eights; ++e) {
        const auto eight = static_cast<uint32_t>(together(load<uint64_t>(codes + 8 * e), 4));
        std::memcpy(bytes + 4 * e, &eight, 4);
      }
    } else {
      std::memcpy(bytes, codes, static_cast<size_t>(n));
    }
    const int64_t done = bits == 8 ? n : n_eights * bits;  // bytes
    std::memset(bytes + done, 0, static_cast<size_t>(n_bytes - done));
    for (int64_t i = n_eights * 8; i < n && bits < 8; ++i) {
      bytes[i * bits / 8] |= static_cast<uint8_t>(codes[i] << i * bits % 8);
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
