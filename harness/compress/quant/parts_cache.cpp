#include "kvc/quant/parts_cache.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <vector>

namespace kvc {

at::Tensor PartsCache::attend(const at::Tensor& q, double scale) const {
  if (!CompressedAttention::takes(q) || !has_parts()) return LayerCache::attend(q, scale);
  CompressedAttention attention(to_basis(q), scale, info(), n_attended());
  read_k(attention);
  apply_softmax(attention);
  read_v(attention);
  return from_basis(attention.out());
}

at::Tensor PartsCache::scores(const at::Tensor& q, double scale) const {
  if (!has_parts() || !CompressedAttention::takes(q.narrow(1, 0, 1))) {
    const auto k = attended().k.to(at::kFloat);
    const auto grouped = attended_query(q).to(at::kFloat).reshape({k.size(0), -1, q.size(2)});
    return at::matmul(grouped, k.transpose(1, 2)).mul_(scale).view({q.size(0), q.size(1), k.size(1)});
  }
  std::vector<at::Tensor> queries;
  for (int64_t t = 0; t < q.size(1); ++t) {
    CompressedAttention attention(to_basis(q.narrow(1, t, 1)), scale, info(), n_attended());
    read_k(attention);
    queries.push_back(attention.weights());
  }
  return queries.size() == 1 ? queries.front().unsqueeze(1) : at::stack(queries, 1);
}

at::Tensor PartsCache::mix(const at::Tensor& weights) const {
  if (!has_parts() || info().head_dim > CompressedAttention::kMostChannels) {
    const auto v = attended().v.to(at::kFloat);
    return at::matmul(weights.reshape({v.size(0), -1, weights.size(2)}), v)
        .view({weights.size(0), weights.size(1), v.size(2)});
  }
  std::vector<at::Tensor> outs;
  for (int64_t t = 0; t < weights.size(1); ++t) {
    CompressedAttention attention(weights.select(1, t), info());
    read_v(attention);
    outs.push_back(from_basis(attention.out()));
  }
  return at::cat(outs, 1);
}

// First all are asked what they read, then it is read. Where one has no parts, each is asked by itself.
void PartsCompressor::attend_batch(std::span<const LayerCache* const> caches, std::span<const at::Tensor> q,
                                   double scale, at::Tensor& out) const {
  std::vector<const PartsCache*> parts;
  std::vector<at::Tensor> queries;
  std::vector<int64_t> n_tokens;
  for (size_t b = 0; b < caches.size(); ++b) {
    parts.push_back(dynamic_cast<const PartsCache*>(caches[b]));
    if (!parts.back() || !CompressedAttention::takes(q[b]) || !parts.back()->has_parts()) break;
    queries.push_back(parts.back()->to_basis(q[b]));
    n_tokens.push_back(parts.back()->n_attended());
  }
  if (queries.size() < caches.size()) {
    for (size_t b = 0; b < caches.size(); ++b) {
      out[static_cast<int64_t>(b)].copy_(caches[b]->attend(q[b], scale).squeeze(1));
    }
    return;
  }
  auto batch = CompressedAttention::of_batch(queries, scale, parts.front()->info(), n_tokens, out);
  for (size_t b = 0; b < batch.size(); ++b) parts[b]->read_k(batch[b]);
  for (size_t b = 0; b < batch.size(); ++b) parts[b]->apply_softmax(batch[b]);
  for (size_t b = 0; b < batch.size(); ++b) parts[b]->read_v(batch[b]);
  for (size_t b = 0; b < batch.size(); ++b) {
    const auto held = batch[b].out(), result = parts[b]->from_basis(held);
    if (!result.is_same(held)) out[static_cast<int64_t>(b)].copy_(result.squeeze(1));
  }
}

}  // namespace kvc
