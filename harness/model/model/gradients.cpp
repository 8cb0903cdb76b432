// The forward pass once more, in LibTorch's own operators, so that its autograd can go back through it.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cmath>

#include "kvc/check.h"
#include "model/ops.h"
#include "model/quantized_linear.h"
#include "model/transformer.h"

namespace kvc {
namespace {

at::Tensor product(const at::Tensor& x, const Linear& w) {
  const auto wide = expanded(w, at::kFloat);
  const auto y = at::matmul(x, wide.weight.to(at::kFloat).t());
  return wide.bias.defined() ? y + wide.bias.to(at::kFloat) : y;
}

// Rows first ... of merged [T, n*D] as heads [H, T, D], each normalized where there is a weight.
at::Tensor heads_of(const at::Tensor& merged, int64_t first, int64_t n_heads, int64_t head_dim, const at::Tensor& norm,
                    double eps) {
  const auto normed = [&](const at::Tensor& x) { return norm * (x * (x.square().mean(-1, true) + eps).rsqrt()); };
  auto rows = merged.narrow(1, first * head_dim, n_heads * head_dim);
  if (norm.defined() && norm.size(0) == rows.size(1) && n_heads > 1) rows = normed(rows);  // of all heads as one vector
  const auto heads = rows.unflatten(1, {n_heads, head_dim}).transpose(0, 1);
  return norm.defined() && norm.size(0) == head_dim ? normed(heads) : heads;
}

at::Tensor rotated(const at::Tensor& heads, const RopeTable& rope) {
  if (!rope.cos.defined()) return heads;
  const int64_t half = rope.cos.size(1), rest = heads.size(-1) - 2 * half;
  const auto a = heads.narrow(-1, 0, half), b = heads.narrow(-1, half, half);
  return at::cat({a * rope.cos - b * rope.sin, b * rope.cos + a * rope.sin, heads.narrow(-1, 2 * half, rest)}, -1);
}

// 0 where a query sees the key, else -inf. [T, T]
at::Tensor hidden_keys(int64_t n_tokens, int64_t window) {
  const auto hidden = at::full({n_tokens, n_tokens}, -INFINITY, at::kFloat);
  auto mask = at::triu(hidden, 1);
  if (window > 0) mask = mask + at::tril(hidden, -window);
  return mask;
}

// q [H_q, T, D], k and v [H_kv, T, D] -> [T, H_q*D]. attention_weights() works in place, which autograd cannot follow.
at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const LayerInfo& info) {
  const int64_t group = q.size(0) / k.size(0), n = k.size(1);
  const auto keys = k.repeat_interleave(group, 0), values = v.repeat_interleave(group, 0);
  auto scores = at::matmul(q, keys.transpose(1, 2)) / (1 / info.attention_scale);
  if (const double cap = info.logit_softcap; cap > 0) scores = cap * (scores / cap).tanh();
  scores = scores + hidden_keys(n, info.sliding_window);
  if (info.sinks.defined()) scores = at::cat({scores, info.sinks.view({-1, 1, 1}).expand({-1, n, 1})}, -1);
  return at::matmul(scores.softmax(-1).narrow(-1, 0, n), values).transpose(0, 1).flatten(1);
}

// A zero that the loss is differentiated by.
at::Tensor leaf(const at::Tensor& like) { return at::zeros(like.sizes(), at::kFloat).set_requires_grad(true); }

}  // namespace

TextGradients Transformer::gradients(std::span<const int64_t> ids) const {
  KVC_CHECK(is_on_cpu(), "gradients: the model is not on the CPU");
  KVC_CHECK(config_.experts.n_experts == 0, "gradients: not computed through experts");
  KVC_CHECK(ids.size() >= 2, "gradients: a text of ", ids.size(), " tokens, expected 2 and more");
  const at::AutoGradMode on(true);
  const auto n_tokens = static_cast<int64_t>(ids.size());
  std::vector<int64_t> positions(ids.size());
  for (size_t t = 0; t < ids.size(); ++t) positions[t] = static_cast<int64_t>(t);
  auto x = embed(ids, positions, n_tokens, false).to(at::kFloat);
  const auto ropes = rope_of(positions);
  const auto factors = query_factors(positions);
  TextGradients result;
  std::vector<at::Tensor> k_leaves, v_leaves;
  const auto norm = [&](const at::Tensor& rows, const Norm& by) {
    return by.weight.defined() ? normalize(rows, by, config_.norm_eps) : rows;
  };
  const bool before = config_.is_normed_before(), behind_sum = config_.norms == NormPlace::after_sum;
  const auto half = [&](const at::Tensor& sum, const at::Tensor& out, const Norm& by, const Norm& output_norm) {
    const auto added = sum + norm(out, output_norm) * config_.residual_scale;
    return behind_sum ? norm(added, by) : added;
  };
  for (int64_t i = 0; i < config_.n_layers; ++i) {
    const auto& layer = weights_.layers[static_cast<size_t>(i)];
    const auto rope = rope_of(i, ropes);
    const auto merged = product(before ? norm(x, layer.attention_norm) : x, layer.qkv);
    const int64_t n_q = config_.n_heads, n_kv = config_.n_kv_heads, d = config_.head_dim;
    auto q = rotated(heads_of(merged, 0, n_q, d, layer.q_norm, config_.norm_eps), rope);
    if (factors.defined()) q = q * factors.unsqueeze(1);
    auto k = rotated(heads_of(merged, n_q, n_kv, d, layer.k_norm, config_.norm_eps), rope);
    auto v = heads_of(merged, n_q + n_kv, n_kv, d, {}, 0);
    result.layers.push_back({k.detach().contiguous(), v.detach().contiguous(), {}, {}, q.detach().contiguous()});
    k = k + k_leaves.emplace_back(leaf(k)), v = v + v_leaves.emplace_back(leaf(v));
    x = half(x, product(attention(q, k, v, layer_info(i, 0)), layer.output), layer.attention_norm,
             layer.attention_output_norm);
    const auto up = product(before ? norm(x, layer.mlp_norm) : x, layer.up);
    const auto halves = up.chunk(2, 1);
    const auto& architecture = *config_.architecture;
    const auto bent = !architecture.gated_mlp                            ? up.relu()
                      : architecture.activation == Activation::gelu_tanh ? at::gelu(halves[0], "tanh") * halves[1]
                                                                         : at::silu(halves[0]) * halves[1];
    x = half(x, product(bent, layer.down), layer.mlp_norm, layer.mlp_output_norm);
  }
  x = norm(x, weights_.final_norm);
  if (is_defined(weights_.project_out)) x = product(x, weights_.project_out);
  const auto targets = at::tensor(at::ArrayRef<int64_t>(ids.data() + 1, ids.size() - 1), at::kLong);
  auto logits = product(x.narrow(0, 0, n_tokens - 1), weights_.logits) / config_.logits_divisor;
  if (const double cap = config_.logits_softcap; cap > 0) logits = cap * (logits / cap).tanh();
  const auto chosen = logits.log_softmax(-1).gather(1, targets.unsqueeze(1));
  const auto loss = -chosen.sum();
  loss.backward();
  result.nll = loss.item<double>();
  for (size_t i = 0; i < result.layers.size(); ++i) {
    result.layers[i].k_gradient = k_leaves[i].grad(), result.layers[i].v_gradient = v_leaves[i].grad();
  }
  return result;
}

}  // namespace kvc
