// Decode attention over uncompressed tokens for a batch of sequences, parallel over (sequence, KV head) pairs. Reads K
// and V once.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>

#include "kvc/layer_cache.h"
#include "kvc/quant/token_blocks.h"

namespace kvc {

struct ExactTokens {
  const TokenBlocks* k;
  const TokenBlocks* v;
};

// q[b]: [H_q, 1, D]; out: [B, H_q, D] fp32. A sequence's result does not depend on the others, bit for bit.
KVC_EXPORT void attend_exact(std::span<const ExactTokens> sequences, std::span<const at::Tensor> q, double scale,
                             const LayerInfo& info, at::Tensor& out);

}  // namespace kvc
