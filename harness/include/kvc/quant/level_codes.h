// Tokens as codes of levels along channels: indices into a book (4-bit floats, Lloyd-Max levels), or 8-bit floats.
// x^ = scale * level, with one scale per group of channels of a token, or one per head. CompressedAttention reads them
// directly if codes do not cross words; otherwise it decodes some tokens at a time.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "kvc/quant/code_book.h"
#include "kvc/quant/stored_numbers.h"

namespace kvc {

KVC_EXPORT at::Tensor from_e8m0(const at::Tensor& codes);  // u8 -> 2^(code - 127), fp32

// A view, which does not own the memory.
struct KVC_EXPORT LevelCodes {
  at::Tensor codes;                          // [H, T, n_packed_words(D, bits)] int32; without a book [H, T, D] u8
  at::Tensor scale;                          // [H, T, D / g], or [H, 1, 1]: one per head; fp32, fp16 or u8
  NumberType byte_scale = NumberType::e8m0;  // what scales of type u8 are: e8m0 or e4m3
  CodeBook book{nullptr, 8};
  Float8 floats = Float8::e4m3;  // what codes are without a book
  double factor = 1;             // multiplies every scale
  at::Tensor global;             // [1] fp32, also multiplies every scale, if computed on the device; undefined: 1
  int64_t head_dim = 0;

  int64_t n_tokens() const { return codes.size(1); }
  at::Tensor scales() const;                                 // fp32, including factor and global
  LevelCodes tokens(int64_t first, int64_t n_tokens) const;  // the codes of these tokens
  at::Tensor dequantize() const;                             // [H, T, D] fp32
};

}  // namespace kvc
