// The k smallest and k largest entries of each vector, stored in addition to the quantized matrix.
// Vectors: each channel along the tokens (axis tokens), or each token along all channels of all heads (axis channels,
// index h*D + j). Ties go to the lowest index, on every device; the two sets are disjoint, and an entry that could be
// in either is in the lower one. Values are differences x - x^, so that the matrix is x^ + S and attention is a sum.
// Source: GEAR section 3 (Filter_s), sparse part. Bytes: 2k * n_vectors * (2 + index), index 1 byte for vectors up to
// 256 entries, else 2; values 4 bytes with Precision::exact.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "kvc/footprint.h"
#include "kvc/quant/group_quant.h"

namespace kvc {

// Entries taken from each side of a vector: half of the fraction, rounded half to even, never more than half of it.
KVC_EXPORT int64_t n_outliers_per_side(double fraction, int64_t vector_len);

struct KVC_EXPORT Outliers {
  at::Tensor values;  // axis tokens: [H, D, 2k]; axis channels: [T, 2k]; undefined where k = 0
  at::Tensor index;   // the same shape, u8 or u16: position in the vector, ascending
  GroupAxis axis = GroupAxis::channels;
  bool index_is_shared = false;  // the index belongs to all caches, and this cache's footprint excludes it

  void add_to_(at::Tensor& x) const;  // x [H, T, D] fp32 += S
  void add_to(Footprint& bytes, CacheTensor tensor) const;
};

// Finds the outliers of x [H, T, D] of any float type; values stay undefined until take_values.
KVC_EXPORT Outliers find_outliers(const at::Tensor& x, double fraction, GroupAxis axis);

// [H, T, D] bool, true at the outliers.
KVC_EXPORT at::Tensor outlier_mask(const Outliers& outliers, int64_t n_heads, int64_t n_tokens, int64_t head_dim);

// values = the difference [H, T, D] at the outliers, in two steps: take_values moves the entries of `left` [n, T, D]
// fp32 (heads from first_head on) into values and leaves zeros; round_values rounds the values from fp32.
KVC_EXPORT void take_values(Outliers& outliers, at::Tensor& left, int64_t first_head);
KVC_EXPORT void round_values(Outliers& outliers, Precision precision);

}  // namespace kvc
