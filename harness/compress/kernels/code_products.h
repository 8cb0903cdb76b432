// One decode step's loops on raw pointers, for one KV head and the n_q query heads that read it; no LibTorch.
// Idea: codes are unpacked in registers and never stored; scales fold into the query or the weight,
//   q . x^_t       = sum_j (q_j scale) code_tj   + sum_j q_j zero
//   sum_t w_t x^_tj = sum_t (w_t scale_t) code_tj + sum_t w_t zero_t
// Accumulation is fp32 in 16 fixed lanes, whatever the vector width. Any length; head_dim <= kMaxHeadDim.
// Reads bits/8 bytes a number and 4 (fp16) or 8 a group, once; a code costs one multiply-add a query head and two
// operations to unpack.
#pragma once

#include <cstdint>

#include "kvc/quant/stored_numbers.h"

namespace kvc::kernels {

constexpr int64_t kMaxHeadDim = 1024;
constexpr int64_t kTileEntries = 16;  // words, scales or zeros of a channel that stand together

// What a code stands for, before its scale.
enum class CodeKind : uint8_t {
  number,   // itself; bits 2, 4, 8
  centred,  // itself less 2^(bits - 1) - 1: symmetric codes; bits 2, 4, 8
  level,    // levels[code]; bits 1, 2, 4
  e4m3,     // a float of 8 bits
  e5m2,     // another
};

// One head of a GroupCodes or LevelCodes. Where rows are channels, words, scales and zeros stand in tiles
// (kvc/quant/group_quant.h).
struct Codes {
  const int32_t* words;          // rows of packed codes
  int64_t n_words;               // a row
  NumberArray scale, zero;       // [rows, n_groups], finite; one stands for all; no zero: of all kinds but numbers
  int64_t n_groups, group_size;  // group_size entries along the packed axis
  int64_t bits, n_tokens, head_dim;
  CodeKind kind = CodeKind::number;  // other kinds: groups along channels only
  const float* levels = nullptr;     // [2^bits]
};

// The query heads of one KV head: row i is at data + i * stride.
struct Rows {
  float* data;
  int64_t stride, n;
};
struct ConstRows {
  const float* data;
  int64_t stride, n;
};

// The long factor of one head's low-rank part.
struct Factors {
  NumberArray entries;  // [n_tokens, rank], finite
  int64_t n_tokens, rank;
};

// scores [T] += A down [rank];   down [rank] += weights [T] A
void score_factors(const Factors& a, const float* down, float* scores);
void accumulate_factors(const Factors& a, const float* weights, float* down);

// fp16 bits -> fp32
void to_float(const uint16_t* x, int64_t n, float* out);

// scores [n_q, T] += q [n_q, D] x^T, groups along tokens (rows of codes are channels), each of whole words or all
// tokens
void score_token_groups(const Codes& k, ConstRows q, Rows scores);
// the same, groups along channels (rows of codes are tokens)
void score_channel_groups(const Codes& k, ConstRows q, Rows scores);

// out [n_q, D] += weights [n_q, T] x^, groups along channels
void accumulate_channel_groups(const Codes& v, ConstRows weights, Rows out);

}  // namespace kvc::kernels
