// What a model folder's config.json and generation_config.json say, checked.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/architecture.h"
#include "checkpoint/rope.h"
#include "kvc/compressor.h"

namespace kvc {

// What may differ from layer to layer.
struct LayerConfig {
  int64_t sliding_window = 0;  // tokens that a query sees, itself included; 0: all
  bool has_rope = true;
  bool has_experts = false;  // in the place of the MLP
};

struct ExpertConfig {
  int64_t n_experts = 0;  // 0: none
  int64_t n_chosen = 0;   // of them for each token
  int64_t intermediate_size = 0;
  bool normalized = false;  // as in ExpertFields
  // Where ExpertFields has clamped ones
  double swiglu_alpha = 1.702;
  double swiglu_limit = 7.0;
};

struct ModelConfig {
  const Architecture* architecture = nullptr;  // a row of architectures()
  std::string wrapper = "";                    // class of images and text whose text part this is; "": none
  int64_t hidden_size = 0;
  int64_t embedding_size = 0;  // width of the embedding; hidden_size unless it is projected
  int64_t intermediate_size = 0;
  int64_t n_layers = 0;
  int64_t n_heads = 0;     // H_q
  int64_t n_kv_heads = 0;  // H_kv
  int64_t head_dim = 0;    // D
  int64_t vocab_size = 0;
  int64_t max_position_embeddings = 0;
  std::vector<LayerConfig> layers;  // n_layers
  int64_t sliding_window = 0;       // of the layers that have one; 0: none has
  double norm_eps = 0;
  double norm_offset = 0;  // added to the stored weights of an RMSNorm
  RopeConfig rope;         // of no use where positions are learned
  RopeConfig local_rope;   // of layers with a sliding window
  NormPlace norms = NormPlace::before;
  bool qkv_bias = false;
  bool output_bias = false;
  bool mlp_bias = false;
  bool tied_embeddings = false;  // the output matrix is the embedding
  double attention_scale = 0;    // softmax(q k^T * scale)
  double attention_softcap = 0;  // c: scores become c * tanh(score / c); 0: none
  double logits_softcap = 0;     // the same of the model's logits
  double embedding_scale = 1;    // the embedding is multiplied by it,
  double residual_scale = 1;     // what attention and MLP add to the residual stream by it,
  double logits_divisor = 1;     // the logits divided by it
  // A query at position p is multiplied by 1 + query_growth * log(1 + floor(p / query_growth_length)), after RoPE.
  double query_growth = 0;
  int64_t query_growth_length = 1;
  ExpertConfig experts;
  std::vector<int64_t> bos_token_ids;  // none or one
  // All that end an answer: generation_config.json's where it has them, else config.json's, as transformers' generate()
  // takes them; where neither has any the tokenizer's. Of a GGUF file: gguf_end_tokens().
  std::vector<int64_t> eos_token_ids;

  const RopeConfig& rope_of(int64_t layer) const {
    return layers.at(static_cast<size_t>(layer)).sliding_window > 0 ? local_rope : rope;
  }
  bool is_normed_before() const { return norms == NormPlace::before || norms == NormPlace::around; }
  bool is_output_normed() const { return norms == NormPlace::of_output || norms == NormPlace::around; }
  ModelShape shape() const;
};

// `path` is a model folder, a config.json of any name, or a .gguf file. Throws Error naming file, field, value and what
// is supported.
ModelConfig load_model_config(const std::filesystem::path& path);

class JsonObject;

// The same from what a config.json holds.
ModelConfig parse_model_config(JsonObject config);

}  // namespace kvc
