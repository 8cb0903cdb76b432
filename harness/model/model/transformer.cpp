#include "model/transformer.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kvc/check.h"
#include "model/ops.h"
#include "model/prefill_attention.h"
#include "model/quantized_linear.h"
#include "model/random_weights.h"

namespace kvc {
namespace {

// No autograd bookkeeping in here. Not InferenceMode: its tensors could not be changed in place outside of it, and a
// cache may keep what we hand out for longer.
using NoAutograd = at::AutoDispatchBelowADInplaceOrView;

int64_t round_up(int64_t n, int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

std::vector<int64_t> positions_from(int64_t first, int64_t n) {
  std::vector<int64_t> positions(static_cast<size_t>(n));
  std::iota(positions.begin(), positions.end(), first);
  return positions;
}

// x behind the prefix, where there is one. [H, T, D]
at::Tensor behind(const at::Tensor* prefix, const at::Tensor& x) {
  return prefix && prefix->defined() ? at::cat({*prefix, x}, 1) : x;
}

// With weights as codes or blocks a prompt's products run on floats, made once for the whole prompt.
DecoderLayer expanded(const DecoderLayer& layer, at::ScalarType type) {
  auto result = layer;
  for (auto* linear : {&result.qkv, &result.output}) *linear = expanded(*linear, type);
  if (is_defined(layer.up)) {  // experts stay: most of them read few rows
    for (auto* linear : {&result.up, &result.down}) *linear = expanded(*linear, type);
  }
  return result;
}

at::Tensor linear(const at::Tensor& x, const Linear& w, bool buckets) {
  const auto in = w.input_bits > 0 ? rounded_rows(x, w.input_bits) : x;
  return buckets ? linear_buckets(in, w) : linear_rows(in, w);
}

}  // namespace

Transformer Transformer::load(const std::filesystem::path& dir, const LoadOptions& options) {
  const NoAutograd guard;
  auto config = load_model_config(dir);
  auto weights = load_weights(dir, config, options);
  return {std::move(config), std::move(weights)};
}

Transformer Transformer::draw(const std::filesystem::path& config_file, const LoadOptions& options, uint64_t seed) {
  const NoAutograd guard;
  auto config = load_model_config(config_file);
  auto weights = draw_weights(config, options, seed);
  return {std::move(config), std::move(weights)};
}

Transformer::Transformer(ModelConfig config, Weights weights)
    : config_(std::move(config)), weights_(std::move(weights)) {
  if (config_.architecture->learned_positions) return;
  frequencies_ = rope_frequencies(config_.rope, config_.head_dim);
  local_frequencies_ = rope_frequencies(config_.local_rope, config_.head_dim);
}

void Transformer::check_id(int64_t id, int64_t position) const {
  KVC_CHECK(id >= 0 && id < config_.vocab_size, "model: token id ", id, " at position ", position, ", expected 0 to ",
            config_.vocab_size - 1);
  KVC_CHECK(position >= 0 && position < config_.max_position_embeddings, "model: position ", position,
            ", the model has max_position_embeddings ", config_.max_position_embeddings);
}

Transformer::RopeTables Transformer::rope_of(std::span<const int64_t> positions) const {
  const auto global = rope_table(positions, frequencies_, config_.rope.attention_factor);
  if (config_.rope == config_.local_rope || config_.sliding_window == 0) return {global, global};
  return {global, rope_table(positions, local_frequencies_, config_.local_rope.attention_factor)};
}

RopeTable Transformer::rope_of(int64_t layer, const RopeTables& tables) const {
  if (!config_.layers[static_cast<size_t>(layer)].has_rope) return {};
  return is_local(layer) ? tables.local : tables.global;
}

at::Tensor Transformer::query_factors(std::span<const int64_t> positions) const {
  if (config_.query_growth == 0) return {};
  std::vector<float> factors;
  for (const int64_t position : positions) {
    factors.push_back(static_cast<float>(
        1 + config_.query_growth * std::log1p(static_cast<double>(position / config_.query_growth_length))));
  }
  return at::tensor(factors);
}

// -> [n_rows, hidden] on the first layer's device; rows beyond the ids are zero
at::Tensor Transformer::embed(std::span<const int64_t> ids, std::span<const int64_t> positions, int64_t n_rows,
                              bool buckets) const {
  for (size_t t = 0; t < ids.size(); ++t) check_id(ids[t], positions[t]);
  auto x = embedding_rows(weights_.embedding, ids, n_rows, weights_.type);
  if (is_defined(weights_.project_in)) x = linear(x, weights_.project_in, buckets);
  if (double scale = config_.embedding_scale; scale != 1) {
    if (config_.architecture->embedding_times_root) scale = at::scalar_tensor(scale, x.options()).item<double>();
    x.mul_(scale);
  }
  if (weights_.positions.defined()) {
    std::vector<int64_t> rows(positions.begin(), positions.begin() + static_cast<std::ptrdiff_t>(ids.size()));
    for (auto& row : rows) row += kUnusedPositions;
    x.add_(embedding_rows(weights_.positions, rows, n_rows));
  }
  return x;
}

// x [rows, hidden] -> [rows, (H_q + 2 H_kv) * D], before RoPE
at::Tensor Transformer::project_qkv(const at::Tensor& x, const DecoderLayer& layer, bool buckets,
                                    const OnRead& on_read) const {
  const auto in = config_.is_normed_before() ? normalize(x, layer.attention_norm, config_.norm_eps) : x;
  if (on_read) on_read(Reader::qkv, in);
  auto merged = linear(in, layer.qkv, buckets);
  if (config_.architecture->head_norms == HeadNorms::each) {
    normalize_heads_(merged, 0, config_.n_heads, layer.q_norm, config_.norm_eps);
    normalize_heads_(merged, config_.n_heads, config_.n_kv_heads, layer.k_norm, config_.norm_eps);
  }
  if (config_.architecture->head_norms == HeadNorms::merged) {
    int64_t first = 0;
    for (const auto* weight : {&layer.q_norm, &layer.k_norm}) {
      auto rows = merged.narrow(1, first, weight->size(0));
      rows.copy_(normalize(rows, {*weight, {}, config_.architecture->wide_norms}, config_.norm_eps));
      first += weight->size(0);
    }
  }
  return merged;
}

// x [rows, hidden] -> down(activation(gate) * up), without a gate down(relu(up)); or the experts' mean
at::Tensor Transformer::mlp(const at::Tensor& x, const DecoderLayer& layer, bool buckets) const {
  if (!is_defined(layer.up)) return mix_experts(x, layer.experts);
  const auto& architecture = *config_.architecture;
  auto up = linear(x, layer.up, buckets);
  return linear(architecture.gated_mlp ? gated(up, architecture.activation) : up.relu_(), layer.down, buckets);
}

// Of each row the chosen experts' outputs, weighted. An expert reads its rows together, by products whose bits do not
// depend on how many there are; a row's sum goes by the experts' numbers.
at::Tensor Transformer::mix_experts(const at::Tensor& x, const Experts& experts) const {
  const auto& fields = config_.architecture->experts;
  const auto scores = linear(x, experts.router, false).to(at::kFloat);  // [rows, E]
  const auto ranked = fields.routing == Routing::softmax_first ? scores.softmax(-1) : scores;
  auto [weights, chosen] = ranked.topk(config_.experts.n_chosen, -1);
  if (fields.routing == Routing::softmax_last) weights = weights.softmax(-1);
  if (config_.experts.normalized) weights = weights / weights.sum(-1, true);
  const auto by_row = chosen.to(at::kCPU).contiguous();
  auto mixed = at::zeros(x.sizes(), x.options().dtype(at::kFloat));
  for (int64_t e = 0; e < config_.experts.n_experts; ++e) {
    const auto places = (by_row == e).nonzero().to(x.device());  // [n, 2]: row, and which of its choices
    if (places.size(0) == 0) continue;
    const auto rows = places.select(1, 0);
    const auto index = static_cast<size_t>(e);
    const auto up = linear(x.index_select(0, rows), experts.up[index], false);
    const auto in = fields.clamped ? clamped_gated(up, config_.experts.swiglu_alpha, config_.experts.swiglu_limit)
                                   : gated(up, config_.architecture->activation);
    const auto out = linear(in, experts.down[index], false).to(at::kFloat);
    mixed.index_add_(0, rows, out * weights.index({rows, places.select(1, 1)}).unsqueeze(1));
  }
  return mixed.to(x.scalar_type());
}

// x += a half's output, which is normed before, or the sum is.
void Transformer::add_half_(at::Tensor& x, const at::Tensor& output, const Norm& norm, const Norm& output_norm) const {
  const auto added = config_.is_output_normed() ? normalize(output, output_norm, config_.norm_eps) : output;
  config_.residual_scale == 1 ? x.add_(added) : x.add_(added * config_.residual_scale);
  if (config_.norms == NormPlace::after_sum) x.copy_(normalize(x, norm, config_.norm_eps));
}

// x [rows, hidden] += output(attended [rows, H_q*D]), then += the MLP
void Transformer::finish_layer_(at::Tensor& x, const DecoderLayer& layer, const at::Tensor& attended, bool buckets,
                                const OnRead& on_read) const {
  add_half_(x, linear(attended.to(x.scalar_type()), layer.output, buckets), layer.attention_norm,
            layer.attention_output_norm);
  const auto in = config_.is_normed_before() ? normalize(x, layer.mlp_norm, config_.norm_eps) : x;
  if (on_read) on_read(Reader::up, in);
  add_half_(x, mlp(in, layer, buckets), layer.mlp_norm, layer.mlp_output_norm);
}

NewTokens Transformer::project_heads(const at::Tensor& x, const DecoderLayer& weights, const RopeTable& rope,
                                     int64_t first_position, const std::function<OnRead(int64_t row)>& on_read) const {
  const int64_t n_rows = x.size(0), n_heads = config_.n_heads, n_kv_heads = config_.n_kv_heads;
  const auto heads = [&](int64_t n) { return at::empty({n, n_rows, config_.head_dim}, x.options()); };
  NewTokens tokens{heads(n_heads), heads(n_kv_heads), heads(n_kv_heads), first_position};
  for (int64_t row = 0; row < n_rows; row += kRowRun) {
    const int64_t n = std::min(kRowRun, n_rows - row);
    const auto merged = project_qkv(x.narrow(0, row, n), weights, true, on_read(row));
    const auto turn = rope.rows(row, n);
    split_heads_(merged, 0, turn, row, tokens.q);
    split_heads_(merged, n_heads, turn, row, tokens.k);
    split_heads_(merged, n_heads + n_kv_heads, {}, row, tokens.v);
  }
  if (const auto factors = query_factors(positions_from(first_position, n_rows)); factors.defined()) {
    tokens.q.mul_(factors.to(x.device()).unsqueeze(1));
  }
  return tokens;
}

// x: rows of the tokens behind the prefix, a multiple of kRowBucket: a token's bits do not depend on how long the
// prompt is.
void Transformer::prefill_layer_(at::Tensor& x, int64_t layer, int64_t n_tokens, const RopeTables& ropes,
                                 const NewTokens* prefix, const OnLayer& on_layer, const OnInput& on_input) const {
  const auto rope = rope_of(layer, ropes);
  const auto weights = expanded(weights_.layers[static_cast<size_t>(layer)], x.scalar_type());
  const int64_t n_rows = x.size(0), n_prefix = prefix ? prefix->k.size(1) : 0;
  const auto on_read = [&](int64_t row) {  // of the run's rows, those that are tokens
    const int64_t n = std::min(kRowRun, n_tokens - n_prefix - row);
    return on_input
               ? OnRead([&, n](Reader reader, const at::Tensor& in) { on_input(layer, reader, in.narrow(0, 0, n)); })
               : OnRead();
  };
  auto tokens = project_heads(x, weights, rope, n_prefix, on_read);
  const auto n_of = [&](int64_t row) { return std::min(kRowRun, n_rows - row); };
  {
    const auto k = behind(prefix ? &prefix->k : nullptr, tokens.k), v = behind(prefix ? &prefix->v : nullptr, tokens.v);
    const PrefillAttention attention(k, v, layer_info(layer, 0));
    const auto all = attention.has_all() ? attention.attend_all(tokens.q, n_prefix) : at::Tensor();
    for (int64_t row = 0; row < n_rows; row += kRowRun) {
      std::vector<at::Tensor> attended;
      for (int64_t bucket = row; bucket < row + n_of(row) && !all.defined(); bucket += kRowBucket) {
        attended.push_back(attention.attend(tokens.q, bucket, n_prefix + bucket));
      }
      auto rows = x.narrow(0, row, n_of(row));
      finish_layer_(rows, weights, all.defined() ? all.narrow(0, row, n_of(row)) : at::cat(attended), true,
                    on_read(row));
    }
  }
  if (!on_layer) return;
  const auto whole = [&](const at::Tensor& first, at::Tensor& rest) {
    rest = behind(prefix ? &first : nullptr, rest.narrow(1, 0, n_tokens - n_prefix)).contiguous();
  };
  whole(prefix ? prefix->q : at::Tensor(), tokens.q);
  whole(prefix ? prefix->k : at::Tensor(), tokens.k);
  whole(prefix ? prefix->v : at::Tensor(), tokens.v);
  on_layer(layer, tokens.q, tokens.k, tokens.v);
}

// x [rows, hidden] -> [rows, V]
at::Tensor Transformer::logits_of_rows(const at::Tensor& x, bool buckets) const {
  auto normed = weights_.final_norm.weight.defined() ? normalize(x, weights_.final_norm, config_.norm_eps) : x;
  if (is_defined(weights_.project_out)) normed = linear(normed, weights_.project_out, buckets);
  auto logits = linear(normed, weights_.logits, buckets);
  if (config_.logits_divisor != 1) logits.div_(config_.logits_divisor);
  if (config_.logits_softcap > 0) logits.div_(config_.logits_softcap).tanh_().mul_(config_.logits_softcap);
  return logits;
}

// x: rows of the prompt's end, n_tokens of them tokens
at::Tensor Transformer::last_logits(const at::Tensor& x, int64_t n_tokens, int64_t n_last) const {
  auto logits = at::empty({n_last, config_.vocab_size}, at::kFloat);
  const int64_t first = n_tokens - n_last;
  for (int64_t row = first / kRowBucket * kRowBucket; row < n_tokens; row += kRowBucket) {
    const auto bucket = logits_of_rows(x.narrow(0, row, kRowBucket), true);
    const int64_t begin = std::max(first, row), end = std::min(n_tokens, row + kRowBucket);
    logits.narrow(0, begin - first, end - begin).copy_(bucket.narrow(0, begin - row, end - begin));
  }
  return logits;
}

at::Tensor Transformer::prefill(std::span<const int64_t> ids, const OnLayer& on_layer, int64_t n_last,
                                std::span<const NewTokens> prefix) const {
  const NoAutograd guard;
  const auto n_rest = static_cast<int64_t>(ids.size()) - (prefix.empty() ? 0 : prefix.front().k.size(1));
  KVC_CHECK(n_last >= 1 && n_last <= std::max<int64_t>(n_rest, 1), "prefill: logits of the last ", n_last,
            " positions, expected 1 to ", n_rest);
  return last_logits(prefill_layers(ids, on_layer, {}, prefix), n_rest, n_last);
}

void Transformer::observe_inputs(std::span<const int64_t> ids, const OnInput& on_input) const {
  const NoAutograd guard;
  prefill_layers(ids, {}, on_input, {});
}

// -> rows of the tokens behind the prefix, at the last layer's end
at::Tensor Transformer::prefill_layers(std::span<const int64_t> ids, const OnLayer& on_layer, const OnInput& on_input,
                                       std::span<const NewTokens> prefix) const {
  const auto n_tokens = static_cast<int64_t>(ids.size());
  KVC_CHECK(n_tokens >= 1, "prefill: the prompt has no tokens");
  KVC_CHECK(n_tokens <= config_.max_position_embeddings, "prefill: the prompt has ", n_tokens,
            " tokens, the model has max_position_embeddings ", config_.max_position_embeddings);
  const int64_t n_prefix = prefix.empty() ? 0 : prefix.front().k.size(1);
  KVC_CHECK(prefix.empty() || static_cast<int64_t>(prefix.size()) == config_.n_layers, "prefill: a prefix of ",
            prefix.size(), " layers, the model has ", config_.n_layers);
  KVC_CHECK(n_prefix % kPrefixStep == 0 && n_prefix < n_tokens, "prefill: a prefix of ", n_prefix,
            " tokens, expected a multiple of ", kPrefixStep, " below the prompt's ", n_tokens);
  const auto rest = ids.subspan(static_cast<size_t>(n_prefix));
  const int64_t n_rows = round_up(n_tokens - n_prefix, kRowBucket);
  const auto positions = positions_from(n_prefix, n_rows);
  auto x = embed(rest, positions, n_rows, true);
  auto rope = rope_of(positions).to(x.device());
  for (int64_t layer = 0; layer < config_.n_layers; ++layer) {
    const auto device = device_of(weights_.layers[static_cast<size_t>(layer)].qkv);
    if (x.device() != device) x = x.to(device), rope = rope.to(device);
    prefill_layer_(x, layer, n_tokens, rope, prefix.empty() ? nullptr : &prefix[static_cast<size_t>(layer)], on_layer,
                   on_input);
  }
  return x;
}

at::Tensor Transformer::prefill_chunk(std::span<const int64_t> ids, int64_t first_position,
                                      const AttendChunk& attend) const {
  const NoAutograd guard;
  const auto n = static_cast<int64_t>(ids.size()), n_rows = round_up(n, kRowBucket);
  KVC_CHECK(n >= 1, "prefill: a chunk without tokens");
  const auto positions = positions_from(first_position, n_rows);
  auto x = embed(ids, positions, n_rows, true);
  auto rope = rope_of(positions).to(x.device());
  for (int64_t layer = 0; layer < config_.n_layers; ++layer) {
    const auto weights = expanded(weights_.layers[static_cast<size_t>(layer)], x.scalar_type());
    const auto device = device_of(weights.qkv);
    if (x.device() != device) x = x.to(device), rope = rope.to(device);
    auto tokens = project_heads(x, weights, rope_of(layer, rope), first_position, [](int64_t) { return OnRead(); });
    for (auto* part : {&tokens.q, &tokens.k, &tokens.v}) *part = part->narrow(1, 0, n).contiguous();
    auto attended = at::zeros({n_rows, config_.n_heads * config_.head_dim}, x.options().dtype(at::kFloat));
    attended.narrow(0, 0, n).copy_(attend(layer, tokens).transpose(0, 1).flatten(1));
    for (int64_t row = 0; row < n_rows; row += kRowRun) {
      const int64_t n_run = std::min(kRowRun, n_rows - row);
      auto rows = x.narrow(0, row, n_run);
      finish_layer_(rows, weights, attended.narrow(0, row, n_run), true);
    }
  }
  return last_logits(x, n, 1).squeeze(0);
}

at::Tensor Transformer::decode_step(std::span<const StepToken> tokens, const AttendStep& attend) const {
  const NoAutograd guard;
  const auto n = static_cast<int64_t>(tokens.size());
  const int64_t n_heads = config_.n_heads, n_kv_heads = config_.n_kv_heads, head_dim = config_.head_dim;
  std::vector<int64_t> ids, positions;
  for (const auto& token : tokens) ids.push_back(token.id), positions.push_back(token.position);
  auto x = embed(ids, positions, n, false);  // [B, hidden]
  auto rope = rope_of(positions).to(x.device());
  const auto factors = query_factors(positions);
  std::vector<NewTokens> news(tokens.size());
  for (int64_t layer = 0; layer < config_.n_layers; ++layer) {
    const auto& weights = weights_.layers[static_cast<size_t>(layer)];
    const auto device = device_of(weights.qkv);
    if (x.device() != device) x = x.to(device), rope = rope.to(device);
    auto merged = project_qkv(x, weights, false);
    rotate_heads_(merged, n_heads + n_kv_heads, head_dim, rope_of(layer, rope));
    if (factors.defined()) merged.narrow(1, 0, n_heads * head_dim).mul_(factors.to(device).unsqueeze(1));
    for (int64_t b = 0; b < n; ++b) {
      const auto heads = merged[b].view({n_heads + 2 * n_kv_heads, 1, head_dim});
      news[static_cast<size_t>(b)] = {heads.narrow(0, 0, n_heads), heads.narrow(0, n_heads, n_kv_heads),
                                      heads.narrow(0, n_heads + n_kv_heads, n_kv_heads),
                                      positions[static_cast<size_t>(b)]};
    }
    auto attended = at::empty({n, n_heads, head_dim}, x.options().dtype(at::kFloat));
    attend(layer, news, config_.attention_scale, attended);
    finish_layer_(x, weights, attended.view({n, n_heads * head_dim}), false);
  }
  return logits_of_rows(x, false).to(at::kCPU, at::kFloat);
}

at::Tensor Transformer::decode_step(int64_t id, int64_t position,
                                    std::span<const std::unique_ptr<LayerCache>> caches) const {
  KVC_CHECK(static_cast<int64_t>(caches.size()) == config_.n_layers, "decode_step: ", caches.size(), " caches for ",
            config_.n_layers, " layers");
  const StepToken token{id, position};
  const auto attend = [&](int64_t layer, std::span<const NewTokens> tokens, double scale, at::Tensor& attended) {
    auto& cache = *caches[static_cast<size_t>(layer)];
    cache.append(tokens[0]);
    attended[0].copy_(cache.attend(tokens[0].q, scale).squeeze(1));
  };
  return decode_step({&token, 1}, attend)[0];
}

}  // namespace kvc
