// What logits say of the next token: their softmax, in double.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace kvc {

class TokenDistribution {
 public:
  explicit TokenDistribution(const at::Tensor& logits);  // [V]

  double log_probability(int64_t id) const;             // natural logarithm
  int64_t most_likely() const { return most_likely_; }  // of equal ones the first
  at::Tensor probabilities() const;                     // [V] fp64

  // KL(exact || held) in nats; exactly 0 where the logits are equal. `probabilities` are exact's: many are compared
  // with one.
  friend double kl_divergence(const TokenDistribution& exact, const at::Tensor& probabilities,
                              const TokenDistribution& held);
  // The share of tokens drawn from held that speculative decoding accepts where exact is the target: the sum of
  // min(p, q) (Y. Leviathan et al. 2023, arXiv:2211.17192); exactly 1 where the logits are equal.
  friend double acceptance(const TokenDistribution& exact, const at::Tensor& probabilities,
                           const TokenDistribution& held);

 private:
  at::Tensor logits_;  // [V] fp64
  int64_t most_likely_;
  double log_sum_;  // of their exponentials
};

}  // namespace kvc
