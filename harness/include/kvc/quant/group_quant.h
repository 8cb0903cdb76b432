// Asymmetric min-max quantization of groups (the quantizer of FlexGen, KIVI, KCVT and GEAR):
//   zero = min(group), scale = (max - min) / (2^b - 1), code = clamp(round((x - zero) / scale), 0, 2^b - 1),
//   x^ = scale * code + zero.
// Rounding is half to even. A constant group has scale 0 and codes 0 (the public codes return NaN there).
// Precision::real rounds scale and zero to fp16 first and encodes with the rounded pair.
// Symmetric (the quantizer of RTN and DecoQuant): m = 2^(b-1) - 1, scale = max(max |x|, 1e-5) / m,
//   code = clamp(round(x / scale), -m, m) + m, x^ = scale * (code - m); no zero is stored. A group of
//   zeros has scale 0.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "kvc/footprint.h"
#include "kvc/quant/precision.h"
#include "kvc/quant/stored_numbers.h"

namespace kvc {

enum class GroupAxis {
  channels,  // a group runs along the channels of one token
  tokens,    // a group runs along the tokens of one channel
};

struct GroupFormat {
  int64_t bits = 4;        // 2, 4 or 8; on the CPU also 3, 5 or 6, which are decoded before attention
  int64_t group_size = 0;  // entries per group; 0: all channels of the token, or all tokens of the chunk
  GroupAxis axis = GroupAxis::channels;
  bool merge_heads = false;  // with axis channels and group_size 0: one group over all heads of a token
  Precision precision = Precision::real;
  bool symmetric = false;
  bool merge_tokens = false;  // symmetric with merge_heads: one group over the whole chunk
};

// Tokens in packed form. The packed axis is the group's axis.
//   axis channels: codes [H, T, ceil(D*b/32)] int32, scale and zero [H or 1, T, D/g]
//   axis tokens:   codes [H, D, ceil(T*b/32)] int32, scale and zero [H, D, T/g], each head in tiles: the first 16
//                  entries of all D rows, row after row, then the next 16; the last tile may be narrower
//   symmetric: zero is undefined; merge_tokens: scale [1, 1, 1]
struct KVC_EXPORT GroupCodes {
  at::Tensor codes, scale, zero;
  GroupFormat format;
  int64_t n_heads = 0, n_tokens = 0, head_dim = 0;

  GroupCodes by_rows() const;                            // the same in row order instead of tiles
  at::Tensor dequantize() const;                         // [H, T, D] fp32
  GroupCodes heads(int64_t first, int64_t n) const;      // the codes of these heads
  int64_t droppable(int64_t n) const;                    // of the first n < n_tokens, those in whole groups
  GroupCodes without_front(int64_t n) const;             // copies the others; n: droppable
  GroupCodes followed_by(const GroupCodes& next) const;  // of one format, groups along tokens: copies both
  void add_to(Footprint& bytes, CacheTensor tensor) const;
};

inline std::string codes_not_finite() {
  return "quantize_groups: a value is not finite, or beyond fp16 (65504); its scale cannot be stored";
}

// x: [H, T, D] of floats. left_out: undefined, or [H, T, D] bool, true for entries to exclude from their group's
// minimum and maximum (they are still encoded, clamped). Throws Error if x, or its scale in fp16, is not finite, or if
// the group does not divide its axis.
KVC_EXPORT GroupCodes quantize_groups(const at::Tensor& x, const GroupFormat& format, const at::Tensor& left_out = {});

// The same in plain tensor operations, for any device; bit-identical reference of the loops above.
KVC_EXPORT GroupCodes quantize_groups_reference(const at::Tensor& x, const GroupFormat& format,
                                                const at::Tensor& left_out = {});

}  // namespace kvc
