// One decode step's loops on raw pointers, for one KV head and the n_q query heads that read it; no LibTorch.
// Idea: codes are unpacked tile by tile and never stored; scales fold into the query or the weight,
//   q . x^_t = sum_j (q_j scale) code_tj + sum_j q_j zero,   sum_t w_t x^_tj = sum_t (w_t scale_t) code_tj + sum_t w_t
//   zero_t.
// Accumulation is fp32 in 16 fixed lanes, whatever the vector width. Bits 2, 4, 8; any length; head_dim <= kMaxHeadDim.
#pragma once

#include <cstdint>

namespace kvc::kernels {

constexpr int64_t kMaxHeadDim = 1024;

// One head of a GroupCodes; side data already fp32.
struct Codes {
  const int32_t* words;  // rows of packed codes
  int64_t n_words;       // a row
  const float* scale;    // [rows, n_groups]
  const float* zero;
  int64_t n_groups, group_size;  // group_size entries along the packed axis
  int64_t bits, n_tokens, head_dim;
  float middle = 0;  // taken off each code: symmetric codes. Groups along channels only
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

// fp16 bits -> fp32
void to_float(const uint16_t* x, int64_t n, float* out);

// scores [n_q, T] += q [n_q, D] x^T, groups along tokens (rows of codes are channels)
void score_token_groups(const Codes& k, ConstRows q, Rows scores);
// the same, groups along channels (rows of codes are tokens)
void score_channel_groups(const Codes& k, ConstRows q, Rows scores);

// out [n_q, D] += weights [n_q, T] x^, groups along channels
void weigh_channel_groups(const Codes& v, ConstRows weights, Rows out);

}  // namespace kvc::kernels
