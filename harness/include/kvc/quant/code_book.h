// Codes of one to four bits, packed by pack_bits, that index a book of 2^bits levels.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "kvc/check.h"

namespace kvc {

struct CodeBook {
  const float* levels;  // [2^bits]
  int64_t bits;
};

// words [..., n_packed_words(len, bits)], scale [..., ceil(len / group_size)] fp32, zero the same or undefined
//   -> [..., len] fp32: levels[code] * scale + zero
KVC_EXPORT at::Tensor decode_groups(const at::Tensor& words, int64_t len, const CodeBook& book, const at::Tensor& scale,
                                    const at::Tensor& zero, int64_t group_size);

// What a scale and zero apply to when the codes of all heads are in one row.
enum class BookScale : uint8_t { rows, channels };

// words [n, n_packed_words(n_heads * head_dim, bits)], scale and zero [n] or [n_heads * head_dim] fp32
//   -> [n_heads, n, head_dim] fp32; rows are split among the CPU's threads
KVC_EXPORT at::Tensor decode_heads(const at::Tensor& words, int64_t n_heads, int64_t head_dim, const CodeBook& book,
                                   const at::Tensor& scale, const at::Tensor& zero, BookScale of);

}  // namespace kvc
