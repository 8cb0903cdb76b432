// Codes of one to four bits that are looked up in a book of 2^bits levels, as pack_bits lays them out.
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
//   -> [..., len] fp32: levels[code] * scale + zero. On the CPU.
KVC_EXPORT at::Tensor decode_groups(const at::Tensor& words, int64_t len, const CodeBook& book, const at::Tensor& scale,
                                    const at::Tensor& zero, int64_t group_size);

// The same with one scale and zero a channel, [len] fp32.
KVC_EXPORT at::Tensor decode_channels(const at::Tensor& words, int64_t len, const CodeBook& book,
                                      const at::Tensor& scale, const at::Tensor& zero);

}  // namespace kvc
