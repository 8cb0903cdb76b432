// What logits say of the next token: their softmax, in double.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

namespace kvc {

class TokenDistribution {
 public:
  explicit TokenDistribution(const at::Tensor& logits);  // [V]; kept, not copied, where it is fp32

  double log_probability(int64_t id) const;           // natural logarithm
  int64_t most_likely() const { return most_likely_; }  // of equal ones the first
  std::vector<double> probabilities() const;
  std::span<const float> logits() const;
  double log_sum() const { return log_sum_; }  // of the logits' exponentials

 private:
  at::Tensor logits_;
  int64_t most_likely_;
  double log_sum_;
};

// KL(exact || held) in nats; exactly 0 where the logits are equal. `probabilities` are exact's: many are held against
// one.
double kl_divergence(const TokenDistribution& exact, std::span<const double> probabilities,
                     const TokenDistribution& held);

}  // namespace kvc
