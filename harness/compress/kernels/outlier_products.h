// Products with a few exact entries of each vector of a matrix, on raw pointers; no LibTorch. Reads 3 or 4 bytes an
// entry (fp16 and its place) once for each query head; each costs one multiply-add at a place of its own.
#pragma once

#include "kernels/code_products.h"

namespace kvc::kernels {

// Vector i's entries are [i * per_vector, (i + 1) * per_vector), ascending and each once.
struct Entries {
  NumberArray values;
  const void* index;  // uint8_t, or uint16_t where wide
  bool wide;
  int64_t per_vector;
};

// Vectors are the channels [D] of one head, an index is a token.
void score_channel_entries(const Entries& x, int64_t first_vector, int64_t head_dim, const float* q, float* scores);
void accumulate_channel_entries(const Entries& x, int64_t first_vector, int64_t head_dim, const float* weights,
                                float* out);

// Vectors are tokens [first, end), an index is h * head_dim + channel of n_heads heads, each read by `group` queries.
// scores or weights: [n_heads * group, stride], token t in column t.
struct TokenEntries {
  Entries entries;
  int64_t first, end, n_heads, group, head_dim, stride;
};
void score_token_entries(const TokenEntries& x, const float* q, float* scores);
void accumulate_token_entries(const TokenEntries& x, const float* weights, float* out);

}  // namespace kvc::kernels
