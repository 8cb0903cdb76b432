// A compression method with fixed options. It creates the caches of single layers and owns what they share.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kvc/layer_cache.h"

namespace kvc {

// What may differ from layer to layer of a model.
struct LayerShape {
  int64_t sliding_window = 0;  // as in LayerInfo
  bool has_rope = true;        // caches get rope_frequencies

  bool operator==(const LayerShape&) const = default;
};

// The properties of a model that a method may depend on.
struct ModelShape {
  int64_t n_layers = 1;
  int64_t n_heads = 1;
  int64_t n_kv_heads = 1;
  int64_t head_dim = 64;
  int64_t sliding_window = 0;  // as in LayerInfo; of all layers unless `layers` says otherwise
  bool has_rope = true;        // caches get rope_frequencies; of all layers unless `layers` says otherwise
  double attention_scale = usual_attention_scale(head_dim);
  int64_t n_rotated_channels = head_dim;  // R of LayerInfo::rope_frequencies, where there is RoPE
  double logit_softcap = 0;               // as in LayerInfo
  bool has_sinks = false;                 // caches get sinks
  bool has_neighbours_in_gguf = false;    // as in LayerInfo
  std::vector<LayerShape> layers = {};    // one per layer; empty: all layers are alike

  LayerShape layer(int64_t i) const {
    return layers.empty() ? LayerShape{sliding_window, has_rope} : layers.at(static_cast<size_t>(i));
  }
  bool has_windows() const {  // in any layer
    return std::any_of(layers.begin(), layers.end(), [](const auto& of) { return of.sliding_window > 0; }) ||
           (layers.empty() && sliding_window > 0);
  }
};

// The LayerInfo of one layer of such a model.
inline LayerInfo layer_info(const ModelShape& model, int64_t layer, uint64_t sequence_key,
                            std::span<const float> rope_frequencies, at::Device device = at::kCPU,
                            const at::Tensor& sinks = {}) {
  const auto shape = model.layer(layer);
  return {.layer = layer,
          .n_layers = model.n_layers,
          .n_heads = model.n_heads,
          .n_kv_heads = model.n_kv_heads,
          .head_dim = model.head_dim,
          .sequence_key = sequence_key,
          .device = device,
          .rope_frequencies = shape.has_rope ? rope_frequencies : std::span<const float>(),
          .sliding_window = shape.sliding_window,
          .attention_scale = model.attention_scale,
          .logit_softcap = model.logit_softcap,
          .sinks = sinks,
          .has_neighbours_in_gguf = model.has_neighbours_in_gguf};
}

// Bytes of n tokens' K and V in one layer at fp16: papers give sizes as fractions of it.
inline double fp16_bytes(const ModelShape& model, int64_t n_tokens) {
  return 4.0 * static_cast<double>(model.n_kv_heads * model.head_dim * n_tokens);
}

// Bytes that inference engines store of n tokens' K and V at 16 bits in all layers: of a layer with a sliding window at
// most so many tokens.
inline int64_t engine_bytes(const ModelShape& model, int64_t n_tokens) {
  int64_t n_stored = 0;
  for (int64_t i = 0; i < model.n_layers; ++i) {
    const int64_t window = model.layer(i).sliding_window;
    n_stored += window > 0 ? std::min(window, n_tokens) : n_tokens;
  }
  return 4 * model.n_kv_heads * model.head_dim * n_stored;
}

class KVC_EXPORT Compressor {
 public:
  virtual ~Compressor();

  // Throws Error with the reason if the method does not support such a model (head_dim, group size, ...). Called once,
  // before anything runs. Default: supports every model.
  virtual void check_model(const ModelShape& model) const;

  // A new, empty cache. The compressor outlives it.
  virtual std::unique_ptr<LayerCache> make_cache(const LayerInfo& info) const = 0;

  // Nominal bits per stored code, shown in tables; 16 if nothing is quantized.
  virtual double bits() const = 0;

  // The published size formula for one layer's K and V, in bytes; reported next to the measured size, never in its
  // place.
  virtual double paper_bytes(const ModelShape& model, int64_t n_prompt_tokens, int64_t n_new_tokens) const = 0;
};

// Optional interface, found by dynamic_cast on the Compressor: one decode step over the caches of a whole batch.
class KVC_EXPORT BatchedAttention {
 public:
  virtual ~BatchedAttention();

  // Whether attend_batch() is used on this device, instead of attend() of each cache.
  virtual bool attends_together(at::Device device) const { return true; }

  // caches[b]: caches of this compressor, all of one layer. q[b]: [H_q, 1, D]; out: [B, H_q, D] fp32, for each sequence
  // bit-identical to caches[b]->attend(q[b], scale), independent of the batch.
  virtual void attend_batch(std::span<const LayerCache* const> caches, std::span<const at::Tensor> q, double scale,
                            at::Tensor& out) const = 0;
};

}  // namespace kvc
