// What a model folder's config.json and generation_config.json say, checked.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "kvc/compressor.h"

namespace kvc {

struct ModelConfig {
  std::string architecture;  // "LlamaForCausalLM"
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int64_t n_layers = 0;
  int64_t n_heads = 0;     // H_q
  int64_t n_kv_heads = 0;  // H_kv
  int64_t head_dim = 0;    // D
  int64_t vocab_size = 0;
  int64_t max_position_embeddings = 0;
  double rms_norm_eps = 0;
  double rope_theta = 0;
  bool tied_embeddings = false;        // the output matrix is the embedding
  std::vector<int64_t> bos_token_ids;  // none or one
  std::vector<int64_t> eos_token_ids;  // generation_config.json's where it has them, else config.json's

  ModelShape shape() const { return {n_layers, n_heads, n_kv_heads, head_dim}; }
};

// Throws Error naming file, field, value and what is supported.
ModelConfig load_model_config(const std::filesystem::path& dir);

}  // namespace kvc
