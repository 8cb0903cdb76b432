// A decode step over kvquant's codes as they are held: no key and no value is decoded, no key is rotated.
#pragma once

#include <kvc/quant/compressed_attention.h>

#include <cstdint>
#include <span>

#include "matrix.h"

namespace kvquant {

// Whether there are loops for it: 2 or 4 bits, rows of whole words, head_dim even. Then matrices hold heads in parts.
bool has_products(const Format& format, int64_t head_dim);

// scores of tokens first ... += q K^T. k: Axis::channels in parts; channels: its range; position: RoPE's, of the first
void score(kvc::CompressedAttention& attention, const Matrix& k, const Range& channels, const Levels& levels,
           const Format& format, std::span<const float> frequencies, int64_t first, int64_t position);

// out += weights V of tokens first ... v: Axis::tokens in parts, n_heads of head_dim
void accumulate_v(kvc::CompressedAttention& attention, const Matrix& v, const Levels& levels, const Format& format,
                  int64_t n_heads, int64_t head_dim, int64_t first);

}  // namespace kvquant
