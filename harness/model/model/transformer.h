// A decoder-only language model: weights, exact prefill, and decode steps through LayerCaches.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "checkpoint/model_config.h"
#include "checkpoint/rope.h"
#include "kvc/compressor.h"
#include "kvc/layer_cache.h"
#include "model/weights.h"

namespace kvc {

// The next token of one sequence of a decode step.
struct StepToken {
  int64_t id = 0;
  int64_t position = 0;
};

// K, V and queries of a text as the model computes them, and the gradients of its negative log-likelihood, summed over
// its tokens but the first, by each entry of K and V.
struct TextGradients {
  struct Layer {
    at::Tensor k, v, k_gradient, v_gradient;  // [H_kv, T, D] fp32; keys after RoPE
    at::Tensor q;                             // [H_q, T, D] fp32, after RoPE
  };
  double nll = 0;
  std::vector<Layer> layers;
};

// Immutable after load; may be used from several threads at once.
class Transformer {
 public:
  // Gets a layer's q [H_q, T, D] and k, v [H_kv, T, D] after RoPE (where the model has it), contiguous, of the model's
  // type.
  using OnLayer = std::function<void(int64_t layer, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v)>;

  // Gets what a matrix behind a norm reads at a prompt's positions [T, hidden], some positions at a time.
  enum class Reader { qkv, up };
  using OnInput = std::function<void(int64_t layer, Reader reader, const at::Tensor& x)>;

  // What a decode step does with its sequences' caches at one layer: appends tokens[b] (T = 1, views that the next
  // layer overwrites) to the cache of sequence b, and puts the attention of tokens[b].q into attended[b], [B, H_q, D]
  // fp32.
  using AttendStep =
      std::function<void(int64_t layer, std::span<const NewTokens> tokens, double scale, at::Tensor& attended)>;

  // From a model folder: config.json and safetensors.
  static Transformer load(const std::filesystem::path& dir, const LoadOptions& options);
  static Transformer load(const std::filesystem::path& dir, at::ScalarType dtype) {
    return load(dir, LoadOptions{.dtype = dtype});
  }

  // Of a config.json's shape, with random weights (random_weights.h).
  static Transformer draw(const std::filesystem::path& config, const LoadOptions& options, uint64_t seed);

  const ModelConfig& config() const { return config_; }
  ModelShape shape() const { return config_.shape(); }
  bool is_on_cpu() const { return device_of(weights_.embedding).is_cpu() && device_of(weights_.logits).is_cpu(); }
  // For the caches of a sequence of that name.
  LayerInfo layer_info(int64_t layer, uint64_t sequence_key) const {
    const auto& weights = weights_.layers.at(static_cast<size_t>(layer));
    return kvc::layer_info(shape(), layer, sequence_key, frequencies_of(layer), device_of(weights.qkv), weights.sinks);
  }
  int64_t weights_bytes() const { return weights_.bytes(); }

  // Exact forward pass of a prompt, causal and within the sliding window, layer by layer; a layer's q, k, v are freed
  // when on_layer returns, so that one layer's exact K and V live at a time. -> fp32 logits [n_last, V] of the last
  // n_last positions.
  // With `prefix` (one for each layer: q, k, v of the first P tokens as an earlier prefill of the same ids handed them
  // out, P a multiple of kPrefixStep below ids.size() - n_last) these tokens are not computed again. Same bits. Where
  // the prefix has no q, on_layer gets those of the tokens behind it alone.
  at::Tensor prefill(std::span<const int64_t> ids, const OnLayer& on_layer, int64_t n_last = 1,
                     std::span<const NewTokens> prefix = {}) const;
  // The same pass for what goes into the matrices.
  void observe_inputs(std::span<const int64_t> ids, const OnInput& on_input) const;
  static constexpr int64_t kPrefixStep = kRowBucket;

  // What a chunk of a prompt does with its sequence's cache at one layer: gets the chunk's q, k, v (contiguous, of the
  // model's type, after RoPE, at first_position of the text) and returns the attention of its queries, [H_q, T, D] fp32.
  using AttendChunk = std::function<at::Tensor(int64_t layer, const NewTokens& tokens)>;
  // The forward pass of the next ids of a prompt, from `first_position` on, with attention by `attend`. -> fp32 logits
  // [V] of the last of them, on the CPU.
  at::Tensor prefill_chunk(std::span<const int64_t> ids, int64_t first_position, const AttendChunk& attend) const;

  // One token of each of B sequences: matrix products are shared, attention is each sequence's own. -> fp32 logits
  // [B, V] of the tokens after them, on the CPU. A sequence's bits do not depend on the others.
  at::Tensor decode_step(std::span<const StepToken> tokens, const AttendStep& attend) const;

  // The same for one sequence with one cache per layer. -> [V]
  at::Tensor decode_step(int64_t id, int64_t position, std::span<const std::unique_ptr<LayerCache>> caches) const;

  // In fp32 whatever the model's type, on the CPU; holds all of a forward pass at once.
  TextGradients gradients(std::span<const int64_t> ids) const;

 private:
  Transformer(ModelConfig config, Weights weights);

  // The rotations of layers without and with a sliding window, of the same positions.
  struct RopeTables {
    RopeTable global, local;
    RopeTables to(at::Device device) const { return {global.to(device), local.to(device)}; }
  };

  void check_id(int64_t id, int64_t position) const;
  bool is_local(int64_t layer) const { return config_.layers[static_cast<size_t>(layer)].sliding_window > 0; }
  std::span<const float> frequencies_of(int64_t layer) const {
    if (!config_.layers[static_cast<size_t>(layer)].has_rope) return {};
    return is_local(layer) ? local_frequencies_ : frequencies_;
  }
  RopeTables rope_of(std::span<const int64_t> positions) const;
  // One that rotates nothing where the layer has no RoPE.
  RopeTable rope_of(int64_t layer, const RopeTables& tables) const;
  // Of queries at these positions [T], or undefined where the model has none.
  at::Tensor query_factors(std::span<const int64_t> positions) const;
  at::Tensor embed(std::span<const int64_t> ids, std::span<const int64_t> positions, int64_t n_rows,
                   bool buckets) const;
  using OnRead = std::function<void(Reader reader, const at::Tensor& x)>;
  at::Tensor project_qkv(const at::Tensor& x, const DecoderLayer& layer, bool buckets,
                         const OnRead& on_read = {}) const;
  at::Tensor mlp(const at::Tensor& x, const DecoderLayer& layer, bool buckets) const;
  at::Tensor mix_experts(const at::Tensor& x, const Experts& experts) const;
  void add_half_(at::Tensor& x, const at::Tensor& output, const Norm& norm, const Norm& output_norm) const;
  void finish_layer_(at::Tensor& x, const DecoderLayer& layer, const at::Tensor& attended, bool buckets,
                     const OnRead& on_read = {}) const;
  // q, k, v of x's rows, which are at positions from first_position on.
  NewTokens project_heads(const at::Tensor& x, const DecoderLayer& weights, const RopeTable& rope,
                          int64_t first_position, const std::function<OnRead(int64_t row)>& on_read) const;
  void prefill_layer_(at::Tensor& x, int64_t layer, int64_t n_tokens, const RopeTables& ropes, const NewTokens* prefix,
                      const OnLayer& on_layer, const OnInput& on_input) const;
  at::Tensor prefill_layers(std::span<const int64_t> ids, const OnLayer& on_layer, const OnInput& on_input,
                            std::span<const NewTokens> prefix) const;
  at::Tensor logits_of_rows(const at::Tensor& x, bool buckets) const;
  at::Tensor last_logits(const at::Tensor& x, int64_t n_tokens, int64_t n_last) const;

  ModelConfig config_;
  Weights weights_;
  std::vector<float> frequencies_,
      local_frequencies_;  // [R/2], of rope and local_rope; none where positions are learned
};

}  // namespace kvc
