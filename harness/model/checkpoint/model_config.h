// What a model folder's config.json and generation_config.json say, checked.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "checkpoint/architecture.h"
#include "checkpoint/rope.h"
#include "kvc/compressor.h"

namespace kvc {

struct ModelConfig {
  const Architecture* architecture = nullptr;  // a row of architectures()
  int64_t hidden_size = 0;
  int64_t embedding_size = 0;  // width of the embedding; hidden_size unless it is projected
  int64_t intermediate_size = 0;
  int64_t n_layers = 0;
  int64_t n_heads = 0;     // H_q
  int64_t n_kv_heads = 0;  // H_kv
  int64_t head_dim = 0;    // D
  int64_t vocab_size = 0;
  int64_t max_position_embeddings = 0;
  int64_t sliding_window = 0;  // tokens that a query sees, itself included; 0: all
  double norm_eps = 0;
  RopeConfig rope;          // of no use where positions are learned
  bool norm_before = true;  // as in Architecture
  bool qkv_bias = false;
  bool output_bias = false;
  bool mlp_bias = false;
  bool tied_embeddings = false;        // the output matrix is the embedding
  std::vector<int64_t> bos_token_ids;  // none or one
  // All that end an answer: generation_config.json's where it has them, else config.json's, as transformers' generate()
  // takes them; where neither has any the tokenizer's. Of a GGUF file: gguf_end_tokens().
  std::vector<int64_t> eos_token_ids;

  ModelShape shape() const {
    return {n_layers, n_heads, n_kv_heads, head_dim, sliding_window, !architecture->learned_positions};
  }
};

// `path` is a model folder, a config.json of any name, or a .gguf file. Throws Error naming file, field, value and what
// is supported.
ModelConfig load_model_config(const std::filesystem::path& path);

class JsonObject;

// The same from what a config.json holds.
ModelConfig parse_model_config(JsonObject config);

}  // namespace kvc
