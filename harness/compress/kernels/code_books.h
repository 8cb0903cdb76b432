// Codes of one to four bits that are looked up in a book of levels held in registers; no LibTorch. A row of codes is
// packed as kvc/quant/pack_bits.h says and begins at a word. Eight codes fill as many bytes as one has bits.
// Reads bits/8 bytes a number, writes 4. Nothing fuses a multiplication with an addition: the same bits everywhere.
#pragma once

#include <cstdint>

namespace kvc::kernels {

struct BookRows {
  const int32_t* words;  // [n_rows, n_words]
  int64_t n_words, n_rows, len;
  const float* levels;  // [2^bits]
  int64_t bits;
};

// out[i, j] = levels[code] * scale[i, j / group_size] + zero[i, j / group_size]; zero may be null
void decode_groups(const BookRows& rows, const float* scale, const float* zero, int64_t group_size, float* out);

// The same of rows that are n_parts parts, each len / n_parts entries and beginning at a word: those of a part stand
// together, out[part * stride + i * len / n_parts + j]. A scale and zero belong to a row i or, by_channel, to an entry.
void decode_parts(const BookRows& rows, int64_t n_parts, int64_t stride, const float* scale, const float* zero,
                  bool by_channel, float* out);

// fp32 -> 8-bit floats (kvc/quant/small_floats.h): codes of x / scale; and back
void to_e4m3(const float* x, int64_t n, float scale, uint8_t* codes);
void from_e4m3(const uint8_t* codes, int64_t n, float* out);
void to_e5m2(const float* x, int64_t n, float scale, uint8_t* codes);
void from_e5m2(const uint8_t* codes, int64_t n, float* out);

float largest_magnitude(const float* x, int64_t n);  // NaN where an entry is

}  // namespace kvc::kernels
