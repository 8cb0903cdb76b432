#include "model/transformer.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>

#include "kvc/check.h"
#include "model/ops.h"
#include "model/rope.h"

namespace kvc {
namespace {

// No autograd bookkeeping in here. Not InferenceMode: its tensors could not be changed in place outside of it, and a
// cache may keep what we hand out for longer.
using NoAutograd = at::AutoDispatchBelowADInplaceOrView;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double attention_scale(const ModelConfig& config) { return 1.0 / std::sqrt(static_cast<double>(config.head_dim)); }

constexpr float kHidden = -std::numeric_limits<float>::infinity();  // added to the score of a key that is not seen

int64_t round_up(int64_t n, int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

// Room for T tokens: q [H_q, T, D], k and v [H_kv, T, D]
NewTokens empty_tokens(const ModelConfig& config, int64_t n_tokens, int64_t first_position,
                       const at::TensorOptions& options) {
  const auto heads = [&](int64_t n) { return at::empty({n, n_tokens, config.head_dim}, options); };
  return {heads(config.n_heads), heads(config.n_kv_heads), heads(config.n_kv_heads), first_position};
}

// Causal attention of the bucket of queries [first, first + kRowBucket) over the keys up to its end, of which a query
// sees the last `window` (0: all).
// q [H_q, T, D], k and v [H_kv, T, D], all fp32 -> [kRowBucket, H_q*D] fp32
at::Tensor attend_bucket(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, int64_t first, int64_t window,
                         const at::Tensor& hidden_future, double scale) {
  const int64_t n_heads = q.size(0), n_kv_heads = k.size(0), head_dim = q.size(2);
  const int64_t begin = window > 0 ? std::max<int64_t>(0, first - window + 1) : 0, n = first + kRowBucket - begin;
  const auto grouped = q.narrow(1, first, kRowBucket).reshape({n_kv_heads, -1, head_dim});  // [H_kv, G*64, D]
  auto scores = at::bmm(grouped, k.narrow(1, begin, n).transpose(1, 2)).mul_(scale);        // [H_kv, G*64, n]
  auto by_head = scores.view({n_heads, kRowBucket, n});
  by_head.narrow(2, first - begin, kRowBucket).add_(hidden_future);
  if (window > 0) by_head.add_(at::full({kRowBucket, n}, kHidden, at::kFloat).tril_(first - window - begin));
  const auto attended = at::bmm(scores.softmax(-1), v.narrow(1, begin, n));  // [H_kv, G*64, D]
  return attended.view({n_heads, kRowBucket, head_dim}).transpose(0, 1).reshape({kRowBucket, n_heads * head_dim});
}

// x [T, K], T 1 or a multiple of kRowBucket -> [T, N]
at::Tensor linear_buckets(const at::Tensor& x, const Linear& w) {
  std::vector<at::Tensor> rows;
  for (int64_t row = 0; row < x.size(0); row += kRowBucket) {
    rows.push_back(linear_rows(x.narrow(0, row, std::min(kRowBucket, x.size(0))), w));
  }
  return at::cat(rows);
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

Transformer::Transformer(ModelConfig config, Weights weights)
    : config_(std::move(config)), weights_(std::move(weights)) {
  if (!config_.architecture->learned_positions) rope_frequencies_ = rope_frequencies(config_.rope, config_.head_dim);
}

void Transformer::check_id(int64_t id, int64_t position) const {
  KVC_CHECK(id >= 0 && id < config_.vocab_size, "model: token id ", id, " at position ", position, ", expected 0 to ",
            config_.vocab_size - 1);
  KVC_CHECK(position >= 0 && position < config_.max_position_embeddings, "model: position ", position,
            ", the model has max_position_embeddings ", config_.max_position_embeddings);
}

// Tokens first_position ... -> [n_rows, hidden], 1 or a multiple of kRowBucket; rows beyond the ids are zero
at::Tensor Transformer::embed(std::span<const int64_t> ids, int64_t first_position, int64_t n_rows) const {
  auto x = at::zeros({n_rows, config_.embedding_size}, weights_.embedding.options());
  const size_t row_bytes = static_cast<size_t>(config_.embedding_size) * x.element_size();
  for (size_t t = 0; t < ids.size(); ++t) {
    check_id(ids[t], first_position + static_cast<int64_t>(t));
    std::memcpy(static_cast<char*>(x.mutable_data_ptr()) + t * row_bytes,
                static_cast<const char*>(weights_.embedding.const_data_ptr()) + static_cast<size_t>(ids[t]) * row_bytes,
                row_bytes);
  }
  if (weights_.project_in.weight.defined()) x = linear_buckets(x, weights_.project_in);
  if (weights_.positions.defined()) {
    const auto n_ids = static_cast<int64_t>(ids.size());
    x.narrow(0, 0, n_ids).add_(weights_.positions.narrow(0, kUnusedPositions + first_position, n_ids));
  }
  return x;
}

// x [rows, hidden] -> tokens first_token ... of out.q, out.k and out.v
void Transformer::project_qkv_(const at::Tensor& x, const DecoderLayer& layer, const RopeTable& rope,
                               int64_t first_token, NewTokens& out) const {
  const int64_t n_heads = config_.n_heads, n_kv_heads = config_.n_kv_heads;
  auto merged = linear_rows(normalize(x, layer.attention_norm, config_.norm_eps), layer.qkv);  // [rows, (H_q+2H_kv)*D]
  if (layer.q_norm.defined()) {
    normalize_heads_(merged, 0, n_heads, layer.q_norm, config_.norm_eps);
    normalize_heads_(merged, n_heads, n_kv_heads, layer.k_norm, config_.norm_eps);
  }
  split_heads_(merged, 0, rope, first_token, out.q);
  split_heads_(merged, n_heads, rope, first_token, out.k);
  split_heads_(merged, n_heads + n_kv_heads, {}, first_token, out.v);
}

// x [rows, hidden] += output(attended [rows, H_q*D])
void Transformer::add_attention_(at::Tensor& x, const DecoderLayer& layer, const at::Tensor& attended) const {
  x.add_(linear_rows(attended.to(x.scalar_type()), layer.output));
}

// x [rows, hidden] += down(silu(gate) * up), without a gate down(relu(up))
void Transformer::add_mlp_(at::Tensor& x, const DecoderLayer& layer) const {
  auto up = linear_rows(normalize(x, layer.mlp_norm, config_.norm_eps), layer.up);
  x.add_(linear_rows(config_.architecture->gated_mlp ? silu_times(up) : up.relu_(), layer.down));
}

// x [T_padded, hidden], T_padded a multiple of kRowBucket: a token's bits do not depend on how long the prompt is.
void Transformer::prefill_layer_(at::Tensor& x, int64_t layer, int64_t n_tokens, const RopeTable& rope,
                                 const OnLayer& on_layer) const {
  const auto& weights = weights_.layers[static_cast<size_t>(layer)];
  const int64_t n_rows = x.size(0);
  auto tokens = empty_tokens(config_, n_rows, 0, x.options());
  for (int64_t row = 0; row < n_rows; row += kRowBucket) {
    project_qkv_(x.narrow(0, row, kRowBucket), weights, rope.rows(row, kRowBucket), row, tokens);
  }
  {
    const auto q32 = tokens.q.to(at::kFloat), k32 = tokens.k.to(at::kFloat), v32 = tokens.v.to(at::kFloat);
    const auto hidden_future = at::full({kRowBucket, kRowBucket}, kHidden, at::kFloat).triu_(1);
    for (int64_t row = 0; row < n_rows; row += kRowBucket) {
      auto rows = x.narrow(0, row, kRowBucket);
      add_attention_(
          rows, weights,
          attend_bucket(q32, k32, v32, row, config_.sliding_window, hidden_future, attention_scale(config_)));
      add_mlp_(rows, weights);
    }
  }
  if (!on_layer) return;
  for (auto* tensor : {&tokens.q, &tokens.k, &tokens.v}) *tensor = tensor->narrow(1, 0, n_tokens).contiguous();
  on_layer(layer, tokens.q, tokens.k, tokens.v);
}

// x [rows, hidden] -> [rows, V]
at::Tensor Transformer::logits_of_rows(const at::Tensor& x) const {
  auto normed = normalize(x, weights_.final_norm, config_.norm_eps);
  if (weights_.project_out.weight.defined()) normed = linear_rows(normed, weights_.project_out);
  return linear_rows(normed, weights_.logits);
}

at::Tensor Transformer::last_logits(const at::Tensor& x, int64_t n_tokens, int64_t n_last) const {
  auto logits = at::empty({n_last, config_.vocab_size}, at::kFloat);
  const int64_t first = n_tokens - n_last;
  for (int64_t row = first / kRowBucket * kRowBucket; row < n_tokens; row += kRowBucket) {
    const auto bucket = logits_of_rows(x.narrow(0, row, kRowBucket));
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
  auto x = embed(ids, 0, n_rows);
  const auto rope = rope_table(0, n_rows, rope_frequencies_);
  for (int64_t layer = 0; layer < config_.n_layers; ++layer) prefill_layer_(x, layer, n_tokens, rope, on_layer);
  return last_logits(x, n_tokens, n_last);
}

at::Tensor Transformer::decode_step(int64_t id, int64_t position, std::span<const std::unique_ptr<LayerCache>> caches,
                                    StepTimes* times) const {
  KVC_CHECK(static_cast<int64_t>(caches.size()) == config_.n_layers, "decode_step: ", caches.size(), " caches for ",
            config_.n_layers, " layers");
  const NoAutograd guard;
  auto x = embed({&id, 1}, position, 1);  // [1, hidden]
  const auto rope = rope_table(position, 1, rope_frequencies_);
  for (size_t layer = 0; layer < caches.size(); ++layer) {
    const auto& weights = weights_.layers[layer];
    auto token = empty_tokens(config_, 1, position, x.options());
    project_qkv_(x, weights, rope, 0, token);

    const auto start = std::chrono::steady_clock::now();
    caches[layer]->append(token);
    const auto appended = std::chrono::steady_clock::now();
    const auto attended = caches[layer]->attend(token.q, attention_scale(config_));  // [H_q, 1, D] fp32
    if (times) {
      times->encode_seconds += std::chrono::duration<double>(appended - start).count();
      times->attend_seconds += seconds_since(appended);
    }
    add_attention_(x, weights, attended.reshape({1, config_.n_heads * config_.head_dim}));
    add_mlp_(x, weights);
  }
  return logits_of_rows(x).to(at::kFloat)[0];
}

}  // namespace kvc
