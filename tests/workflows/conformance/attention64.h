// For tests of methods that keep some tokens: normal tokens, and attention in float64 over given positions, token by
// token, which knows nothing of any cache.
#pragma once

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <cmath>
#include <vector>

#include "method.h"

namespace kvc::conformance {

// Normal numbers that fp16 holds without rounding.
struct RandomTokens {
  RandomTokens(const LayerInfo& info, int64_t n_tokens, uint64_t seed = 1) {
    auto generator = at::detail::createCPUGenerator(seed);
    const auto normal = [&](int64_t heads) {
      return at::randn({heads, n_tokens, info.head_dim}, generator, at::TensorOptions(at::kFloat))
          .to(at::kHalf)
          .to(at::kFloat);
    };
    q = normal(info.n_heads), k = normal(info.n_kv_heads), v = normal(info.n_kv_heads);
  }
  NewTokens part(int64_t first, int64_t n) const {
    return {q.narrow(1, first, n), k.narrow(1, first, n), v.narrow(1, first, n), first};
  }
  at::Tensor q, k, v;
};

// Probabilities that query [D] gives the keys [T, D] at `positions`, in their order.
inline std::vector<double> probabilities64(const at::Tensor& query, const at::Tensor& keys,
                                           const std::vector<int64_t>& positions, double scale) {
  const auto q = query.to(at::kDouble).contiguous(), k = keys.to(at::kDouble).contiguous();
  std::vector<double> p;
  double sum = 0;
  for (const int64_t t : positions) {
    double dot = 0;
    for (int64_t j = 0; j < q.size(0); ++j)
      dot += q.const_data_ptr<double>()[j] * k.const_data_ptr<double>()[t * q.size(0) + j];
    p.push_back(std::exp(dot * scale));
    sum += p.back();
  }
  for (double& x : p) x /= sum;
  return p;
}

// Largest difference between cache.attend of the query at position t and attention over kept[h] of each KV head.
inline double attention_error(const LayerCache& cache, const RandomTokens& x, int64_t t,
                              const std::vector<std::vector<int64_t>>& kept) {
  const auto query = x.q.narrow(1, t, 1);
  const double scale = 1 / std::sqrt(static_cast<double>(x.k.size(2)));
  const auto got = cache.attend(query, scale).to(at::kDouble);
  const int64_t group = x.q.size(0) / x.k.size(0);
  double error = 0;
  for (int64_t i = 0; i < x.q.size(0); ++i) {
    const auto& positions = kept[static_cast<size_t>(i / group)];
    const auto p = probabilities64(query[i][0], x.k[i / group], positions, scale);
    auto expected = at::zeros({x.k.size(2)}, at::kDouble);
    for (size_t n = 0; n < p.size(); ++n) expected += p[n] * x.v[i / group][positions[n]].to(at::kDouble);
    error = std::max(error, (got[i][0] - expected).abs().max().item<double>());
  }
  return error;
}

inline std::vector<std::vector<int64_t>> positions_of(const LayerCache& cache) {
  const auto held = cache.positions().contiguous();
  std::vector<std::vector<int64_t>> lists;
  for (int64_t h = 0; h < held.size(0); ++h) {
    const auto* row = held.const_data_ptr<int64_t>() + h * held.size(1);
    lists.emplace_back(row, row + held.size(1));
  }
  return lists;
}

}  // namespace kvc::conformance
