#include "generate/token_distribution.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

namespace kvc {

TokenDistribution::TokenDistribution(const at::Tensor& logits) : logits_(logits.to(at::kCPU, at::kFloat).contiguous()) {
  const auto x = this->logits();
  most_likely_ = std::max_element(x.begin(), x.end()) - x.begin();
  const double largest = x[static_cast<size_t>(most_likely_)];
  double sum = 0;
  for (const float value : x) sum += std::exp(value - largest);
  log_sum_ = largest + std::log(sum);
}

std::span<const float> TokenDistribution::logits() const {
  return {logits_.const_data_ptr<float>(), static_cast<size_t>(logits_.numel())};
}

double TokenDistribution::log_probability(int64_t id) const {
  return static_cast<double>(logits()[static_cast<size_t>(id)]) - log_sum_;
}

std::vector<double> TokenDistribution::probabilities() const {
  std::vector<double> p;
  p.reserve(logits().size());
  for (const float value : logits()) p.push_back(std::exp(value - log_sum_));
  return p;
}

double kl_divergence(const TokenDistribution& exact, std::span<const double> probabilities,
                     const TokenDistribution& held) {
  const auto x = exact.logits(), y = held.logits();
  double sum = 0;  // of p (x - y); the logarithms of the sums of exponentials weigh 1 in all
  for (size_t i = 0; i < x.size(); ++i) sum += probabilities[i] * (static_cast<double>(x[i]) - static_cast<double>(y[i]));
  return sum + (held.log_sum() - exact.log_sum());
}

}  // namespace kvc
