#include "kvc/quant/attention_mass.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>

#include "kvc/value_checks.h"

namespace kvc {
namespace {

// Probabilities that queries give keys, summed over the queries, which are the last T_c of the keys' positions [T_k].
// q: [G, T_c, D] times scale, of the query heads from first_head on; k: [T_k, D] -> [T_k]
at::Tensor mass_of_chunk(const at::Tensor& q, const at::Tensor& k, const at::Tensor& positions, const LayerInfo& layer,
                         int64_t first_head) {
  auto scores = at::matmul(q, k.t());  // [G, T_c, T_k]
  const auto key = positions.unsqueeze(0), query = positions.slice(0, k.size(0) - q.size(1)).unsqueeze(1);
  auto hidden = key.gt(query);
  if (layer.sliding_window > 0) hidden.logical_or_(key.le(query - layer.sliding_window));
  return attention_weights(scores, hidden, layer, first_head).flatten(0, 1).sum(0);
}

}  // namespace

void check_queries(const char* method, const NewTokens& tokens, const LayerInfo& info) {
  const int64_t n = tokens.k.size(1);
  const auto& q = tokens.q;
  KVC_CHECK(q.defined(), method, ": ranks tokens by attention, and there are no queries");
  KVC_CHECK(q.dim() == 3 && q.size(0) == info.n_heads && q.size(1) == n && q.size(2) == info.head_dim, method,
            ": q has shape ", q.sizes(), ", expected [", info.n_heads, ", ", n, ", ", info.head_dim, "]");
  check_values(q.sum(at::kFloat).isfinite(), [method, layer = info.layer] {
    return concat(method, ": q of layer ", layer, " holds a value that is not finite");
  });
}

at::Tensor attention_mass(const at::Tensor& q, const at::Tensor& k, const LayerInfo& layer,
                          const at::Tensor& positions) {
  const int64_t n_kv_heads = k.size(0), n_tokens = k.size(1), n_queries = q.size(1);
  KVC_CHECK(
      q.dim() == 3 && k.dim() == 3 && q.size(0) % n_kv_heads == 0 && q.size(2) == k.size(2) && n_queries <= n_tokens,
      "attention_mass: q is ", q.sizes(), ", k is ", k.sizes());
  const int64_t group = q.size(0) / n_kv_heads;
  const int64_t chunk = std::max<int64_t>(1, kMassBytes / (4 * group * n_tokens));
  const auto in_order = at::arange(n_tokens, at::TensorOptions(at::kLong).device(k.device()));
  auto mass = at::zeros({n_kv_heads, n_tokens}, k.options().dtype(at::kFloat));
  for (int64_t h = 0; h < n_kv_heads; ++h) {
    const auto queries = q.narrow(0, h * group, group).to(at::kFloat).mul(layer.attention_scale);
    const auto keys = k[h].to(at::kFloat), place = positions.defined() ? positions[h] : in_order;
    for (int64_t t = 0; t < n_queries; t += chunk) {
      const int64_t n = std::min(chunk, n_queries - t), begin = n_tokens - n_queries + t;
      const bool may_skip = layer.sliding_window > 0 && !positions.defined();
      const int64_t first = may_skip ? std::max<int64_t>(0, begin - layer.sliding_window + 1) : 0;
      const auto seen = [&](const at::Tensor& x) { return x.narrow(0, first, begin + n - first); };
      seen(mass[h]) += mass_of_chunk(queries.narrow(1, t, n), seen(keys), seen(place), layer, h * group);
    }
  }
  return mass;
}

at::Tensor window_votes(const NewTokens& prompt, const LayerInfo& info, const VoteFormat& format) {
  const int64_t window = format.window, n = prompt.k.size(1) - window, kernel = format.kernel;
  const auto mass = attention_mass(prompt.q.narrow(1, n, window), prompt.k, info);
  const auto votes = mass.narrow(1, 0, n).unsqueeze(1);  // [H_kv, 1, n]
  const auto pooled =
      format.by_maximum ? at::max_pool1d(votes, kernel, 1, kernel / 2) : at::avg_pool1d(votes, kernel, 1, kernel / 2);
  return at::cat({pooled.squeeze(1), mass.narrow(1, n, window)}, 1);
}

}  // namespace kvc
