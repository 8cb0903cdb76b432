// What the loops over codes compute, one code after another: for rows whose groups end within a word, and as a
// reference that shows what the fast loops (whole_loops.h) sum up.
#pragma once

#include <algorithm>
#include <cmath>

#include "kernels/code_books.h"
#include "kernels/code_products.h"
#include "kernels/lanes.h"

namespace kvc::kernels {

// decode: from_e4m3 or from_e5m2
inline float float8_at(decltype(from_e4m3)& decode, const void* codes, int64_t at) {
  float value;
  decode(static_cast<const uint8_t*>(codes) + at, 1, &value);
  return value;
}

inline float number_at(const NumberArray& x, int64_t at) {
  if (!x.data) return 0;
  at = x.n == 1 ? 0 : at;
  switch (x.type) {
    case NumberType::f32:
      return static_cast<const float*>(x.data)[at];
    case NumberType::f16:
      return half_value(static_cast<const uint16_t*>(x.data)[at]);
    case NumberType::e8m0:
      return std::ldexp(1.f, static_cast<const uint8_t*>(x.data)[at] - 127);
    case NumberType::e4m3:
      return float8_at(from_e4m3, x.data, at);
    case NumberType::bf16:
      break;  // only devices read it
  }
  return 0;
}

// The code of a token's channel, where rows are tokens; a centred one less its middle.
inline int32_t code_at(const Codes& x, int64_t token, int64_t channel) {
  const int64_t bit = channel * x.bits;
  const auto word = static_cast<uint32_t>(x.words[token * x.n_words + bit / 32]);
  const int32_t middle = x.kind == CodeKind::centred ? (1 << (x.bits - 1)) - 1 : 0;
  return static_cast<int32_t>(word >> bit % 32 & ((1u << x.bits) - 1)) - middle;
}

inline float entry_at(const Codes& x, int64_t token, int64_t channel) {
  const int64_t at = token * x.n_groups + channel / x.group_size;
  const int32_t code = code_at(x, token, channel);
  const auto byte = static_cast<uint8_t>(code);
  const float value = x.kind == CodeKind::level  ? x.levels[code]
                      : x.kind == CodeKind::e4m3 ? float8_at(from_e4m3, &byte, 0)
                      : x.kind == CodeKind::e5m2 ? float8_at(from_e5m2, &byte, 0)
                                                 : static_cast<float>(code);
  return number_at(x.scale, at) * value + number_at(x.zero, at);
}

// q . x^ of one token whose codes are whole numbers, as whole_loops.h computes it: for each group an exact sum of codes
// times the query's entries in units; the unit is the least power of two of which the largest entry is at most
// 0x7f7f7f, three digits of 127.
inline float score_plain(const Codes& x, const float* q, int64_t token) {
  float score = 0;
  for (int64_t group = 0; group < x.n_groups; ++group) {
    const int64_t begin = group * x.group_size, end = begin + x.group_size, at = token * x.n_groups + group;
    float largest = 0, total = 0, unit = 0x1p-126f;
    for (int64_t j = begin; j < end; ++j) largest = std::max(largest, std::abs(q[j])), total += q[j];
    while (largest > 0x7f7f7f * unit) unit *= 2;
    int64_t sum = 0;
    for (int64_t j = begin; j < end; ++j) sum += code_at(x, token, j) * std::llrint(q[j] / unit);
    score += static_cast<float>(sum) * (number_at(x.scale, at) * unit) + total * number_at(x.zero, at);
  }
  return score;
}

}  // namespace kvc::kernels
