// How the next token is chosen from its logits.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "contract/sampling.h"

namespace kvc {

// logits [V] fp32 -> the token at `position` of the sequence. A draw depends on (seed, sequence_key, position) and on
// the logits alone. The filters act in this order: temperature, top k, top p.
int64_t next_token(const at::Tensor& logits, const Sampling& sampling, uint64_t sequence_key, int64_t position);

}  // namespace kvc
