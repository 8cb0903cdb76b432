// A decoder-only language model: weights, exact prefill, and decode steps through LayerCaches.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "kvc/compressor.h"
#include "kvc/layer_cache.h"
#include "model/model_config.h"
#include "model/weights.h"

namespace kvc {

struct RopeTable;

// Seconds of a decode step that belong to the caches, summed over layers and calls.
struct StepTimes {
  double encode_seconds = 0;  // append
  double attend_seconds = 0;
};

// Immutable after load; may be used from several threads at once.
class Transformer {
 public:
  // Gets a layer's q [H_q, T, D] and k, v [H_kv, T, D] after RoPE (where the model has it), contiguous, of the model's
  // type.
  using OnLayer = std::function<void(int64_t layer, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v)>;

  // From a model folder: config.json and safetensors. Weights and matrix products in `dtype` (Float, Half, BFloat16).
  static Transformer load(const std::filesystem::path& dir, at::ScalarType dtype);

  const ModelConfig& config() const { return config_; }
  ModelShape shape() const { return config_.shape(); }
  int64_t weights_bytes() const { return weights_.bytes(); }

  // Exact forward pass of a prompt, causal and within the sliding window, layer by layer; a layer's q, k, v are freed
  // when on_layer returns, so that one layer's exact K and V live at a time. -> fp32 logits [n_last, V] of the last
  // n_last positions.
  at::Tensor prefill(std::span<const int64_t> ids, const OnLayer& on_layer, int64_t n_last = 1) const;

  // The token `id` at `position` through one cache per layer: append, then attend. -> fp32 logits [V] of the next
  // token.
  at::Tensor decode_step(int64_t id, int64_t position, std::span<const std::unique_ptr<LayerCache>> caches,
                         StepTimes* times = nullptr) const;

 private:
  Transformer(ModelConfig config, Weights weights);

  void check_id(int64_t id, int64_t position) const;
  at::Tensor embed(std::span<const int64_t> ids, int64_t first_position, int64_t n_rows) const;
  void project_qkv_(const at::Tensor& x, const DecoderLayer& layer, const RopeTable& rope, int64_t first_token,
                    NewTokens& out) const;
  void add_attention_(at::Tensor& x, const DecoderLayer& layer, const at::Tensor& attended) const;
  void add_mlp_(at::Tensor& x, const DecoderLayer& layer) const;
  void prefill_layer_(at::Tensor& x, int64_t layer, int64_t n_tokens, const RopeTable& rope,
                      const OnLayer& on_layer) const;
  at::Tensor logits_of_rows(const at::Tensor& x) const;
  at::Tensor last_logits(const at::Tensor& x, int64_t n_tokens, int64_t n_last) const;

  ModelConfig config_;
  Weights weights_;
  std::vector<float> rope_frequencies_;  // [D/2]; none where positions are learned
};

}  // namespace kvc
