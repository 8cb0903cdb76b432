// What probes measure, as functions of tensors. All in double, whatever the tensors' type.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "kvc/layer_cache.h"

namespace kvc {

// K and V over all tokens that a cache was given. Evicted ones are zeros that nothing attends to.
struct HeldTokens {
  at::Tensor k, v;  // [H_kv, T, D] fp64
  at::Tensor kept;  // [H_kv, T] bool
};
HeldTokens held_tokens(const LayerCache& cache);      // dequantize()
HeldTokens attended_tokens(const LayerCache& cache);  // attended()

// ||x - y||_F and that over ||x||_F: of each head, the last entry of all heads together.
struct FrobeniusErrors {
  std::vector<double> absolute, relative;
};
FrobeniusErrors frobenius_errors(const at::Tensor& exact, const at::Tensor& held);  // [H, T, D]

// Of causal attention of the last tokens' queries, per query head; the last entry of all heads together (scores: their
// mean). With a = attention_weights(q k^T * scale) of the layer, a^ the same of what is attended to, o and o^ the outputs:
//   scores: mean over queries of ||a - a^||^2 / ||a||^2;  output: ||o - o^||_F / ||o||_F over all queries
struct AttentionErrors {
  std::vector<double> scores, output;
};
// q: [H_q, n, D] of the last n tokens; exact: [H_kv, T, D]
AttentionErrors attention_errors(const at::Tensor& q, const KeyValue& exact, const HeldTokens& attended,
                                 const LayerInfo& layer);

std::vector<double> singular_values(const at::Tensor& matrix);  // [m, n] -> min(m, n) of them, falling

// Linear between the two nearest entries.
struct Quartiles {
  double min, q1, median, q3, max;
};
Quartiles quartiles(const at::Tensor& values);  // any shape, one entry at least

std::vector<double> channel_mean_abs(const at::Tensor& x);  // [H, T, D] -> H*D means over tokens, channel h*D + j

// Logits [V] of the same position, of the exact and of the compressed cache.
struct LogitErrors {
  double max_abs, l2;
  double kl;  // KL(softmax(exact) || softmax(held)), natural logarithm
  bool top1_same;
};
LogitErrors logit_errors(const at::Tensor& exact, const at::Tensor& held);

}  // namespace kvc
