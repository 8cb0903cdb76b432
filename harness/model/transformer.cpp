#include "model/transformer.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>

#include "kvc/check.h"
#include "model/ops.h"

namespace kvc {
namespace {

// No autograd bookkeeping in here. Not InferenceMode: its tensors could not be changed in place outside of it, and a
// cache may keep what we hand out for longer.
using NoAutograd = at::AutoDispatchBelowADInplaceOrView;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double attention_scale(const ModelConfig& config) { return 1.0 / std::sqrt(static_cast<double>(config.head_dim)); }

int64_t round_up(int64_t n, int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

// Causal attention of the bucket of queries [first, first + kRowBucket) over the keys up to its end.
// q [H_q, T, D], k and v [H_kv, T, D], all fp32 -> [kRowBucket, H_q*D] fp32
at::Tensor attend_bucket(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, int64_t first,
                         const at::Tensor& hidden_future, double scale) {
  const int64_t n_heads = q.size(0), n_kv_heads = k.size(0), head_dim = q.size(2), end = first + kRowBucket;
  const auto grouped = q.narrow(1, first, kRowBucket).reshape({n_kv_heads, -1, head_dim});  // [H_kv, G*64, D]
  auto scores = at::bmm(grouped, k.narrow(1, 0, end).transpose(1, 2)).mul_(scale);          // [H_kv, G*64, end]
  scores.view({n_heads, kRowBucket, end}).narrow(2, first, kRowBucket).add_(hidden_future);
  const auto attended = at::bmm(scores.softmax(-1), v.narrow(1, 0, end));  // [H_kv, G*64, D]
  return attended.view({n_heads, kRowBucket, head_dim}).transpose(0, 1).reshape({kRowBucket, n_heads * head_dim});
}

}  // namespace

Transformer Transformer::load(const std::filesystem::path& dir, at::ScalarType dtype) {
  KVC_CHECK(dtype == at::kFloat || dtype == at::kHalf || dtype == at::kBFloat16, "model: type ", at::toString(dtype),
            ", supported: Float, Half, BFloat16");
  const NoAutograd guard;
  auto config = load_model_config(dir);
  auto weights = load_weights(dir, config, dtype);
  return {std::move(config), std::move(weights)};
}

void Transformer::check_id(int64_t id, int64_t position) const {
  KVC_CHECK(id >= 0 && id < config_.vocab_size, "model: token id ", id, " at position ", position, ", expected 0 to ",
            config_.vocab_size - 1);
  KVC_CHECK(position >= 0 && position < config_.max_position_embeddings, "model: position ", position,
            ", the model has max_position_embeddings ", config_.max_position_embeddings);
}

// -> [n_rows, hidden]; rows beyond the ids are zero
at::Tensor Transformer::embed(std::span<const int64_t> ids, int64_t n_rows) const {
  auto x = at::zeros({n_rows, config_.hidden_size}, weights_.embedding.options());
  const size_t row_bytes = static_cast<size_t>(config_.hidden_size) * x.element_size();
  for (size_t t = 0; t < ids.size(); ++t) {
    check_id(ids[t], static_cast<int64_t>(t));
    std::memcpy(static_cast<char*>(x.mutable_data_ptr()) + t * row_bytes,
                static_cast<const char*>(weights_.embedding.const_data_ptr()) + static_cast<size_t>(ids[t]) * row_bytes,
                row_bytes);
  }
  return x;
}

// x [rows, hidden] += output(attended [rows, H_q*D])
void Transformer::add_attention_(at::Tensor& x, const DecoderLayer& layer, const at::Tensor& attended) const {
  x.add_(linear_rows(attended.to(x.scalar_type()), layer.output));
}

// x [rows, hidden] += down(silu(gate) * up)
void Transformer::add_mlp_(at::Tensor& x, const DecoderLayer& layer) const {
  const auto normed = rms_norm(x, layer.mlp_norm, config_.rms_norm_eps);
  x.add_(linear_rows(silu_times(linear_rows(normed, layer.gate_up)), layer.down));
}

// x [T_padded, hidden], T_padded a multiple of kRowBucket: a token's bits do not depend on how long the prompt is.
void Transformer::prefill_layer_(at::Tensor& x, int64_t layer, int64_t n_tokens, const RopeTable& rope,
                                 const OnLayer& on_layer) const {
  const auto& weights = weights_.layers[static_cast<size_t>(layer)];
  const int64_t n_rows = x.size(0), n_heads = config_.n_heads, n_kv_heads = config_.n_kv_heads,
                head_dim = config_.head_dim;
  auto q = at::empty({n_heads, n_rows, head_dim}, x.options());
  auto k = at::empty({n_kv_heads, n_rows, head_dim}, x.options());
  auto v = at::empty({n_kv_heads, n_rows, head_dim}, x.options());
  for (int64_t row = 0; row < n_rows; row += kRowBucket) {
    const auto normed = rms_norm(x.narrow(0, row, kRowBucket), weights.attention_norm, config_.rms_norm_eps);
    const auto merged = linear_rows(normed, weights.qkv);  // [64, (H_q + 2 H_kv) * D]
    const RopeTable here{rope.cos.narrow(0, row, kRowBucket), rope.sin.narrow(0, row, kRowBucket)};
    split_heads_(merged, 0, &here, row, q);
    split_heads_(merged, n_heads, &here, row, k);
    split_heads_(merged, n_heads + n_kv_heads, nullptr, row, v);
  }
  {
    const auto q32 = q.to(at::kFloat), k32 = k.to(at::kFloat), v32 = v.to(at::kFloat);
    const auto hidden_future =
        at::full({kRowBucket, kRowBucket}, -std::numeric_limits<float>::infinity(), at::kFloat).triu_(1);
    for (int64_t row = 0; row < n_rows; row += kRowBucket) {
      auto rows = x.narrow(0, row, kRowBucket);
      add_attention_(rows, weights, attend_bucket(q32, k32, v32, row, hidden_future, attention_scale(config_)));
      add_mlp_(rows, weights);
    }
  }
  if (!on_layer) return;
  for (auto* tensor : {&q, &k, &v}) *tensor = tensor->narrow(1, 0, n_tokens).contiguous();
  on_layer(layer, q, k, v);
}

at::Tensor Transformer::last_logits(const at::Tensor& x, int64_t n_tokens, int64_t n_last) const {
  auto logits = at::empty({n_last, config_.vocab_size}, at::kFloat);
  const int64_t first = n_tokens - n_last;
  for (int64_t row = first / kRowBucket * kRowBucket; row < n_tokens; row += kRowBucket) {
    const auto bucket =
        linear_rows(rms_norm(x.narrow(0, row, kRowBucket), weights_.final_norm, config_.rms_norm_eps), weights_.logits);
    const int64_t begin = std::max(first, row), end = std::min(n_tokens, row + kRowBucket);
    logits.narrow(0, begin - first, end - begin).copy_(bucket.narrow(0, begin - row, end - begin));
  }
  return logits;
}

at::Tensor Transformer::prefill(std::span<const int64_t> ids, const OnLayer& on_layer, int64_t n_last) const {
  const auto n_tokens = static_cast<int64_t>(ids.size());
  KVC_CHECK(n_tokens >= 1, "prefill: the prompt has no tokens");
  KVC_CHECK(n_tokens <= config_.max_position_embeddings, "prefill: the prompt has ", n_tokens,
            " tokens, the model has max_position_embeddings ", config_.max_position_embeddings);
  KVC_CHECK(n_last >= 1 && n_last <= n_tokens, "prefill: logits of the last ", n_last, " positions, expected 1 to ",
            n_tokens);
  const NoAutograd guard;
  const int64_t n_rows = round_up(n_tokens, kRowBucket);
  auto x = embed(ids, n_rows);
  const auto rope = rope_table(0, n_rows, config_.head_dim, config_.rope_theta);
  for (int64_t layer = 0; layer < config_.n_layers; ++layer) prefill_layer_(x, layer, n_tokens, rope, on_layer);
  return last_logits(x, n_tokens, n_last);
}

at::Tensor Transformer::decode_step(int64_t id, int64_t position, std::span<const std::unique_ptr<LayerCache>> caches,
                                    StepTimes* times) const {
  KVC_CHECK(static_cast<int64_t>(caches.size()) == config_.n_layers, "decode_step: ", caches.size(), " caches for ",
            config_.n_layers, " layers");
  check_id(id, position);
  const NoAutograd guard;
  const int64_t n_heads = config_.n_heads, n_kv_heads = config_.n_kv_heads, head_dim = config_.head_dim;
  const auto rope = rope_table(position, 1, head_dim, config_.rope_theta);
  auto x = embed({&id, 1}, 1);  // [1, hidden]
  for (size_t layer = 0; layer < caches.size(); ++layer) {
    const auto& weights = weights_.layers[layer];
    const auto merged = linear_rows(rms_norm(x, weights.attention_norm, config_.rms_norm_eps), weights.qkv);
    NewTokens token{at::empty({n_heads, 1, head_dim}, x.options()), at::empty({n_kv_heads, 1, head_dim}, x.options()),
                    at::empty({n_kv_heads, 1, head_dim}, x.options()), position};
    split_heads_(merged, 0, &rope, 0, token.q);
    split_heads_(merged, n_heads, &rope, 0, token.k);
    split_heads_(merged, n_heads + n_kv_heads, nullptr, 0, token.v);

    const auto start = std::chrono::steady_clock::now();
    caches[layer]->append(token);
    const auto appended = std::chrono::steady_clock::now();
    const auto attended = caches[layer]->attend(token.q, attention_scale(config_));  // [H_q, 1, D] fp32
    if (times) {
      times->encode_seconds += std::chrono::duration<double>(appended - start).count();
      times->attend_seconds += seconds_since(appended);
    }
    add_attention_(x, weights, attended.reshape({1, n_heads * head_dim}));
    add_mlp_(x, weights);
  }
  return linear_rows(rms_norm(x, weights_.final_norm, config_.rms_norm_eps), weights_.logits).to(at::kFloat)[0];
}

}  // namespace kvc
