// Min-max quantization of contiguous groups on raw pointers, and how their codes are packed; no LibTorch. Formulas:
// kvc/quant/group_quant.h. Reads 4 bytes a number and writes a code of one byte, both of which a caller keeps in the
// cache of the processor. Compiled without contraction of multiply and add, so that every machine gives the same codes.
#pragma once

#include <cstdint>

namespace kvc::kernels {

struct QuantizeGroups {
  const float* x;           // [n_groups, group_size]
  const uint8_t* left_out;  // null, or the same shape
  int64_t n_groups, group_size;
  int64_t bits;
  bool symmetric;  // no zeros and nothing left out
  void* scale;     // [n_groups] fp16 or fp32
  void* zero;      // [n_groups]
  bool half;       // scale and zero are fp16, and rounded before they are used
  uint8_t* codes;  // [n_groups, group_size]
};

// False where a scale or zero is not finite (x is not, or fp16 does not reach).
bool quantize_groups(const QuantizeGroups& job);

// x [n_rows, n_columns], rows `stride` apart -> out [n_columns, n_rows], square by square, so that a line of either is
// read or written whole.
void transpose(const float* x, int64_t stride, int64_t n_rows, int64_t n_columns, float* out);
void transpose(const uint8_t* x, int64_t stride, int64_t n_rows, int64_t n_columns, uint8_t* out);

// codes [n_rows, len] of 2, 4 or 8 bits -> words [n_rows, ceil(len * bits / 32)] (kvc/quant/pack_bits.h)
void pack(const uint8_t* codes, int64_t n_rows, int64_t len, int64_t bits, int32_t* words);

// x: [n] fp32 -> fp16, half to even. False where a value lies outside fp16 or is not finite.
bool to_half(const float* x, int64_t n, uint16_t* out);

// Codes of groups whose entries lie n_groups apart: entry p * n_groups + j is the p-th code of row j.
//   words [n_groups, n_words], bits 2, 4 or 8 -> the first n of scale[j] * code + zero[j]
void decode_strided(const int32_t* words, int64_t n_groups, int64_t n_words, int64_t bits, const float* scale,
                    const float* zero, int64_t n, float* out);

}  // namespace kvc::kernels
