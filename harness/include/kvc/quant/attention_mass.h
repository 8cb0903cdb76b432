// How much attention each key receives: what methods that evict tokens rank them by.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "kvc/layer_cache.h"

namespace kvc {

// Throws, naming the method, where queries are absent, of a shape that is not [H_q, T, D], or not finite.
KVC_EXPORT void check_queries(const char* method, const NewTokens& tokens, const LayerInfo& info);

// Sums of exact causal softmax probabilities: entry [h, t] is what the last T_q positions of the prompt, over all query
// heads that read KV head h, give to token t. A row of sums adds up to T_q * H_q / H_kv.
// q: [H_q, T_q, D], k: [H_kv, T >= T_q, D] of any float type -> [H_kv, T] fp32; sliding_window 0: none.
// At most kMassBytes of scores exist at a time, whatever the prompt's length.
KVC_EXPORT at::Tensor attention_mass(const at::Tensor& q, const at::Tensor& k, double scale,
                                     int64_t sliding_window = 0);

constexpr int64_t kMassBytes = 8 << 20;

// SnapKV's votes: what the last `window` queries of the prompt give to the tokens before them.
struct VoteFormat {
  int64_t window = 32;
  int64_t kernel = 5;       // tokens that votes are pooled over; odd
  bool by_maximum = false;  // of the kernel; else its mean, zeros beyond the ends
};

// [H_kv, T] fp32: pooled votes, and of the window's tokens what they received.
KVC_EXPORT at::Tensor window_votes(const NewTokens& prompt, const LayerInfo& info, const VoteFormat& format);

}  // namespace kvc
