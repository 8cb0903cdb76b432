// How the next token is chosen from its logits.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace kvc {

struct Sampling {
  double temperature = 0;  // 0: greedy, the largest logit and of equal ones the first
  int64_t top_k = 0;       // of the k largest only; 0: of all
  double top_p = 1;        // of the fewest that together have at least this probability
  int64_t seed = 0;
};

// logits [V] fp32 -> the token at `position` of the sequence. A draw depends on (seed, sequence_key, position) and on
// the logits alone. The filters act in this order: temperature, top k, top p.
int64_t next_token(const at::Tensor& logits, const Sampling& sampling, uint64_t sequence_key, int64_t position);

}  // namespace kvc
