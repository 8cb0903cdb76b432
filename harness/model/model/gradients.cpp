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
  auto heads = merged.narrow(1, first * head_dim, n_heads * head_dim).unflatten(1, {n_heads, head_dim}).transpose(0, 1);
  return norm.defined() ? norm * (heads * (heads.square().mean(-1, true) + eps).rsqrt()) : heads;
}

at::Tensor rotated(const at::Tensor& heads, const RopeTable& rope) {
  if (!rope.cos.defined()) return heads;
  const auto halves = heads.chunk(2, -1);
  return at::cat({halves[0] * rope.cos - halves[1] * rope.sin, halves[1] * rope.cos + halves[0] * rope.sin}, -1);
}

// 0 where a query sees the key, else -inf. [T, T]
at::Tensor hidden_keys(int64_t n_tokens, int64_t window) {
  const auto hidden = at::full({n_tokens, n_tokens}, -INFINITY, at::kFloat);
  auto mask = at::triu(hidden, 1);
  if (window > 0) mask = mask + at::tril(hidden, -window);
  return mask;
}

// q [H_q, T, D], k and v [H_kv, T, D] -> [T, H_q*D]
at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& mask,
                     double scale) {
  const int64_t group = q.size(0) / k.size(0);
  const auto keys = k.repeat_interleave(group, 0), values = v.repeat_interleave(group, 0);
  const auto scores = at::matmul(q, keys.transpose(1, 2)) / (1 / scale) + mask;
  return at::matmul(scores.softmax(-1), values).transpose(0, 1).flatten(1);
}

// A zero that the loss is differentiated by.
at::Tensor leaf(const at::Tensor& like) { return at::zeros(like.sizes(), at::kFloat).set_requires_grad(true); }

}  // namespace

TextGradients Transformer::gradients(std::span<const int64_t> ids) const {
  KVC_CHECK(is_on_cpu(), "gradients: the model is not on the CPU");
  KVC_CHECK(ids.size() >= 2, "gradients: a text of ", ids.size(), " tokens, expected 2 and more");
  const at::AutoGradMode on(true);
  const auto n_tokens = static_cast<int64_t>(ids.size());
  std::vector<int64_t> positions(ids.size());
  for (size_t t = 0; t < ids.size(); ++t) positions[t] = static_cast<int64_t>(t);
  auto x = embed(ids, positions, n_tokens, false).to(at::kFloat);
  const auto rope = rope_of(positions);
  const auto mask = hidden_keys(n_tokens, config_.sliding_window);
  TextGradients result;
  std::vector<at::Tensor> k_leaves, v_leaves;
  const auto norm = [&](const at::Tensor& rows, const Norm& by) { return normalize(rows, by, config_.norm_eps); };
  const bool before = config_.norm_before;
  for (const auto& layer : weights_.layers) {
    const auto merged = product(before ? norm(x, layer.attention_norm) : x, layer.qkv);
    const int64_t n_q = config_.n_heads, n_kv = config_.n_kv_heads, d = config_.head_dim;
    const auto q = rotated(heads_of(merged, 0, n_q, d, layer.q_norm, config_.norm_eps), rope);
    auto k = rotated(heads_of(merged, n_q, n_kv, d, layer.k_norm, config_.norm_eps), rope);
    auto v = heads_of(merged, n_q + n_kv, n_kv, d, {}, 0);
    result.layers.push_back({k.detach().contiguous(), v.detach().contiguous(), {}, {}, q.detach().contiguous()});
    k = k + k_leaves.emplace_back(leaf(k)), v = v + v_leaves.emplace_back(leaf(v));
    x = x + product(attention(q, k, v, mask, shape().attention_scale), layer.output);
    if (!before) x = norm(x, layer.attention_norm);
    const auto up = product(before ? norm(x, layer.mlp_norm) : x, layer.up);
    const auto halves = up.chunk(2, 1);
    x = x + product(config_.architecture->gated_mlp ? at::silu(halves[0]) * halves[1] : up.relu(), layer.down);
    if (!before) x = norm(x, layer.mlp_norm);
  }
  if (before) x = norm(x, weights_.final_norm);
  if (is_defined(weights_.project_out)) x = product(x, weights_.project_out);
  const auto targets = at::tensor(at::ArrayRef<int64_t>(ids.data() + 1, ids.size() - 1), at::kLong);
  const auto chosen =
      product(x.narrow(0, 0, n_tokens - 1), weights_.logits).log_softmax(-1).gather(1, targets.unsqueeze(1));
  const auto loss = -chosen.sum();
  loss.backward();
  result.nll = loss.item<double>();
  for (size_t i = 0; i < result.layers.size(); ++i) {
    result.layers[i].k_gradient = k_leaves[i].grad(), result.layers[i].v_gradient = v_leaves[i].grad();
  }
  return result;
}

}  // namespace kvc
