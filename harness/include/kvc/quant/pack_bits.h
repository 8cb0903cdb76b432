// Codes of b bits packed into int32 words along the last axis, as KIVI packs them: code j is at bits [b*j, b*(j+1)) of
// the row, little end first; the last word is padded with zeros.
// Bytes: 4 * ceil(len * b / 32) per row.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "kvc/check.h"

namespace kvc {

constexpr int64_t n_packed_words(int64_t len, int64_t bits) { return (len * bits + 31) / 32; }

// codes: [..., len] u8, each < 2^bits -> [..., n_packed_words(len, bits)] int32. bits 1 ... 8 on the CPU; on other
// devices only bits that divide 32.
KVC_EXPORT at::Tensor pack_bits(const at::Tensor& codes, int64_t bits);

// words: [..., n_packed_words(len, bits)] int32 -> [..., len] u8
KVC_EXPORT at::Tensor unpack_bits(const at::Tensor& words, int64_t bits, int64_t len);

}  // namespace kvc
