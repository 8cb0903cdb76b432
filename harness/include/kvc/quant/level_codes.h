// Tokens as codes along channels that stand for levels: of a book (4-bit floats, Lloyd-Max levels), or for themselves
// as 8-bit floats. x^ = scale * level, with a scale for each group of channels of a token, or one for each head.
// CompressedAttention reads them where a word holds whole codes; others are decoded some tokens at a time.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "kvc/quant/code_book.h"

namespace kvc {

enum class ScaleFormat : uint8_t { floats, e8m0, e4m3 };  // fp32 or fp16; bytes: 2^(byte - 127), or small_floats.h

KVC_EXPORT at::Tensor from_e8m0(const at::Tensor& codes);  // u8 -> 2^(code - 127), fp32

// A view: what it is of holds the memory.
struct KVC_EXPORT LevelCodes {
  at::Tensor codes;  // [H, T, n_packed_words(D, bits)] int32; without a book [H, T, D] u8, e4m3
  at::Tensor scale;  // [H, T, D / g], or [H, 1, 1]: one a head
  ScaleFormat scale_format = ScaleFormat::floats;
  CodeBook book{nullptr, 8};
  double factor = 1;  // of every scale
  at::Tensor global;  // [1] fp32, of every scale, too, where the device that holds it made it; undefined: 1
  int64_t head_dim = 0;

  int64_t n_tokens() const { return codes.size(1); }
  at::Tensor scales() const;                                 // fp32, times factor and global
  LevelCodes tokens(int64_t first, int64_t n_tokens) const;  // of these
  at::Tensor dequantize() const;                             // [H, T, D] fp32
};

}  // namespace kvc
