// How much attention each key receives, by which evicting methods rank tokens.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "kvc/layer_cache.h"

namespace kvc {

// Throws Error, naming the method, if queries are missing, not [H_q, T, D], or not finite.
KVC_EXPORT void check_queries(const char* method, const NewTokens& tokens, const LayerInfo& info);

// Sums of exact causal softmax probabilities: entry [h, t] is the attention of the last T_q positions of the prompt to
// token t, summed over the query heads of KV head h. A row sums to T_q * H_q / H_kv.
// With the layer's scale, window, softcap and sinks (then a row sums to less).
// q: [H_q, T_q, D], k: [H_kv, T >= T_q, D] of any float type -> [H_kv, T] fp32
// positions: [H_kv, T] int64, ascending, where the keys are not those of 0 ... T-1; the last T_q are the queries'.
// At most kMassBytes of scores exist at a time, independent of the prompt's length.
KVC_EXPORT at::Tensor attention_mass(const at::Tensor& q, const at::Tensor& k, const LayerInfo& layer,
                                     const at::Tensor& positions = {});

constexpr int64_t kMassBytes = 8 << 20;

// SnapKV's votes: attention of the last `window` queries of the prompt to the tokens before them.
struct VoteFormat {
  int64_t window = 32;
  int64_t kernel = 5;       // pooling width in tokens; odd
  bool by_maximum = false;  // max pooling; else average pooling with zero padding
};

// [H_kv, T] fp32: pooled votes; for the window's own tokens, the attention that they received.
KVC_EXPORT at::Tensor window_votes(const NewTokens& prompt, const LayerInfo& info, const VoteFormat& format);

}  // namespace kvc
