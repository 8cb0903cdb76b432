#include "probe/measures.h"

#include <ATen/ATen.h>

#include <cmath>
#include <limits>

#include "generate/token_distribution.h"

namespace kvc {
namespace {

std::vector<double> to_vector(const at::Tensor& x) {
  const auto held = x.to(at::kCPU, at::kDouble).contiguous();
  return {held.const_data_ptr<double>(), held.const_data_ptr<double>() + held.numel()};
}

// One value per head, then one for all of them.
std::vector<double> with_whole(const at::Tensor& heads, const at::Tensor& whole) {
  return to_vector(at::cat({heads, whole.reshape({1})}));
}

at::Tensor in_double(const at::Tensor& x) { return x.to(at::kCPU, at::kDouble); }

// [H_kv, T_kept, D] -> [H_kv, T, D] fp64
at::Tensor spread(const at::Tensor& held, const at::Tensor& slot, int64_t n_tokens) {
  const auto x = in_double(held);
  auto all = at::zeros({x.size(0), n_tokens + 1, x.size(2)}, x.options());
  all.scatter_(1, slot.unsqueeze(2).expand_as(x), x);
  return all.narrow(1, 0, n_tokens);
}

// [n, T] bool: what the last n of T tokens do not see
at::Tensor hidden(int64_t n_queries, int64_t n_tokens, int64_t sliding_window) {
  const auto key = at::arange(n_tokens, at::kLong).unsqueeze(0);
  const auto query = at::arange(n_tokens - n_queries, n_tokens, at::kLong).unsqueeze(1);
  auto mask = key.gt(query);
  if (sliding_window > 0) mask = mask.logical_or(key.le(query - sliding_window));
  return mask;
}

// q [H_kv, G, n, D], k [H_kv, T, D], hidden [H_kv or 1, 1, n, T] -> [H_kv, G, n, T]
at::Tensor weights(const at::Tensor& q, const at::Tensor& k, const at::Tensor& hidden, const LayerInfo& layer) {
  return attention_weights(at::matmul(q, k.transpose(1, 2).unsqueeze(1)) * layer.attention_scale, hidden, layer);
}

HeldTokens over_all_tokens(const LayerCache& cache, const KeyValue& held) {
  const int64_t n_tokens = cache.length();
  const auto positions = cache.positions().to(at::kCPU);
  const auto slot = positions.masked_fill(positions.lt(0), n_tokens);  // -1 goes to a slot that is cut off
  auto kept = at::zeros({positions.size(0), n_tokens + 1}, at::kBool);
  kept.scatter_(1, slot, true);
  return {spread(held.k, slot, n_tokens), spread(held.v, slot, n_tokens), kept.narrow(1, 0, n_tokens)};
}

}  // namespace

HeldTokens held_tokens(const LayerCache& cache) { return over_all_tokens(cache, cache.dequantize()); }
HeldTokens attended_tokens(const LayerCache& cache) { return over_all_tokens(cache, cache.attended()); }

FrobeniusErrors frobenius_errors(const at::Tensor& exact, const at::Tensor& held) {
  const auto x = in_double(exact);
  const auto error = (x - in_double(held)).square().sum(at::IntArrayRef({1, 2}));
  const auto size = x.square().sum(at::IntArrayRef({1, 2}));
  const auto absolute = at::cat({error, error.sum().reshape({1})}).sqrt();
  const auto norm = at::cat({size, size.sum().reshape({1})}).sqrt();
  return {to_vector(absolute), to_vector(absolute / norm)};
}

AttentionErrors attention_errors(const at::Tensor& q, const KeyValue& exact, const HeldTokens& attended,
                                 const LayerInfo& layer) {
  const int64_t n_kv_heads = exact.k.size(0), n_queries = q.size(1), n_tokens = exact.k.size(1);
  const auto grouped = in_double(q).reshape({n_kv_heads, -1, n_queries, q.size(2)});
  const auto unseen = hidden(n_queries, n_tokens, layer.sliding_window).view({1, 1, n_queries, n_tokens});
  const auto not_held = unseen.logical_or(attended.kept.logical_not().view({n_kv_heads, 1, 1, n_tokens}));
  const auto a = weights(grouped, in_double(exact.k), unseen, layer);
  const auto b = weights(grouped, attended.k, not_held, layer);
  const auto of_query = (a - b).square().sum(-1) / a.square().sum(-1);  // [H_kv, G, n]
  const auto of_head = of_query.mean(-1).flatten();
  const auto o = at::matmul(a, in_double(exact.v).unsqueeze(1)), p = at::matmul(b, attended.v.unsqueeze(1));
  const auto error = (o - p).square().sum(at::IntArrayRef({2, 3})).flatten();
  const auto size = o.square().sum(at::IntArrayRef({2, 3})).flatten();
  return {with_whole(of_head, of_head.mean()), with_whole((error / size).sqrt(), (error.sum() / size.sum()).sqrt())};
}

std::vector<double> singular_values(const at::Tensor& matrix) {
  return to_vector(at::linalg_svdvals(in_double(matrix)));
}

Quartiles quartiles(const at::Tensor& values) {
  const auto sorted = std::get<0>(in_double(values).flatten().sort());
  const double* x = sorted.const_data_ptr<double>();
  const int64_t n = sorted.numel();
  KVC_CHECK(n > 0, "quartiles of no values");
  const auto at_share = [&](double share) {
    const double place = share * static_cast<double>(n - 1);
    const auto below = static_cast<int64_t>(place);
    const double above = x[std::min(below + 1, n - 1)];
    return x[below] + (place - static_cast<double>(below)) * (above - x[below]);
  };
  return {x[0], at_share(0.25), at_share(0.5), at_share(0.75), x[n - 1]};
}

std::vector<double> channel_mean_abs(const at::Tensor& x) { return to_vector(in_double(x).abs().mean(1).flatten()); }

LogitErrors logit_errors(const at::Tensor& exact, const at::Tensor& held) {
  const auto difference = in_double(exact) - in_double(held);
  const TokenDistribution p(exact), q(held);
  return {difference.abs().max().item<double>(), difference.square().sum().sqrt().item<double>(),
          kl_divergence(p, p.probabilities(), q), p.most_likely() == q.most_likely()};
}

}  // namespace kvc
