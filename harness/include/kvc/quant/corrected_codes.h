// K or V of one chunk as a sum of three parts: X^ = D^ + L + S.
//   S: sparse entries, D^ = Q(X - S), L: low rank of the last tokens of X - D^ - S, per head.
// S is stored as differences x - D^, so that attention is a sum. Source: GEAR, section 3.
// Bytes: those of codes, low_rank and outliers.
#pragma once

#include <ATen/core/Generator.h>

#include <optional>

#include "kvc/quant/compressed_attention.h"

namespace kvc {

enum class Fill {
  masked,  // entries of S are excluded from their group's minimum and maximum
  zero,    // replaced by 0 before quantization (X - S in the paper)
  mean,    // replaced by the mean of their vector (GEAR's public code)
};

// "masked", "zero" or "mean", as the option `fill` of plugins.
KVC_EXPORT Fill fill_named(const std::string& name);

struct CorrectionFormat {
  std::optional<GroupFormat> groups;  // none: D^ = 0
  Fill fill = Fill::masked;
  int64_t rank = 0;           // 0: no L, and the generator is not used
  double low_rank_share = 1;  // L covers the last round(share * T) tokens
  int64_t loops = 3;
  int64_t factor_bits = 16;  // of L: 16 (stored as `precision` says), or 8
  Precision precision = Precision::real;
};

struct KVC_EXPORT CorrectedCodes {
  int64_t n_heads = 0, n_tokens = 0, head_dim = 0;
  GroupCodes codes;            // undefined tensors without a quantizer
  LowRank low_rank;            // of the last tokens
  int64_t low_rank_first = 0;  // the first of them
  Outliers outliers;           // S

  at::Tensor dequantize() const;  // [H, T, D] fp32
  void score(CompressedAttention& attention, int64_t first) const;
  void accumulate_v(CompressedAttention& attention, int64_t first) const;
  void add_to(Footprint& bytes, CacheTensor tensor) const;
};

// x: [H, T, D] of any float type; entries: positions of S, values not yet set (from find_outliers, or any index of its
// form).
KVC_EXPORT CorrectedCodes encode_corrected(const at::Tensor& x, Outliers entries, const CorrectionFormat& format,
                                           at::Generator& generator);

// Advances the generator as encode_corrected of an x of these sizes does, so that V gets the same start whether or not
// K was encoded before it.
KVC_EXPORT void skip_corrected(at::IntArrayRef sizes, const CorrectionFormat& format, at::Generator& generator);

}  // namespace kvc
