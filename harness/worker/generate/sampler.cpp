#include "generate/sampler.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace kvc {
namespace {

uint64_t mixed(uint64_t x) {  // splitmix64's finalizer: every bit of x reaches every bit of the result
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// In [0, 1)
double uniform(uint64_t seed, uint64_t sequence_key, uint64_t position) {
  return static_cast<double>(mixed(mixed(mixed(seed) ^ sequence_key) ^ position) >> 11) * 0x1p-53;
}

}  // namespace

int64_t next_token(const at::Tensor& logits, const Sampling& sampling, uint64_t sequence_key, int64_t position) {
  const float* values = logits.const_data_ptr<float>();
  const int64_t n = logits.size(0);
  if (sampling.temperature == 0) return std::max_element(values, values + n) - values;

  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return values[a] > values[b]; });
  if (sampling.top_k > 0) order.resize(static_cast<size_t>(std::min(sampling.top_k, n)));
  std::vector<double> weights;
  double total = 0;
  for (const int64_t id : order) {
    weights.push_back(std::exp((values[id] - values[order[0]]) / sampling.temperature));
    total += weights.back();
  }
  double kept = 0;
  size_t n_kept = 0;
  while (n_kept < weights.size() && (n_kept == 0 || kept < sampling.top_p * total)) kept += weights[n_kept++];
  double left = uniform(static_cast<uint64_t>(sampling.seed), sequence_key, static_cast<uint64_t>(position)) * kept;
  for (size_t i = 0; i + 1 < n_kept; ++i) {
    left -= weights[i];
    if (left < 0) return order[i];
  }
  return order[n_kept - 1];
}

}  // namespace kvc
