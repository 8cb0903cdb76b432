#include "generate/token_distribution.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

namespace kvc {

TokenDistribution::TokenDistribution(const at::Tensor& logits)
    : logits_(logits.to(at::kCPU, at::kDouble).contiguous()) {
  const double* x = logits_.const_data_ptr<double>();
  most_likely_ = std::max_element(x, x + logits_.numel()) - x;
  const double largest = x[most_likely_];
  log_sum_ = largest + std::log((logits_ - largest).exp_().sum().item<double>());
}

double TokenDistribution::log_probability(int64_t id) const { return logits_.const_data_ptr<double>()[id] - log_sum_; }

at::Tensor TokenDistribution::probabilities() const { return (logits_ - log_sum_).exp_(); }

double kl_divergence(const TokenDistribution& exact, const at::Tensor& probabilities, const TokenDistribution& held) {
  // The logarithms of the sums weigh 1 in all.
  const auto weighed = (exact.logits_ - held.logits_).mul_(probabilities);
  return weighed.sum().item<double>() + (held.log_sum_ - exact.log_sum_);
}

double acceptance(const TokenDistribution& exact, const at::Tensor& probabilities, const TokenDistribution& held) {
  if (at::equal(exact.logits_, held.logits_)) return 1;
  return std::min(1.0, at::minimum(probabilities, held.probabilities()).sum().item<double>());
}

}  // namespace kvc
