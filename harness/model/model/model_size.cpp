#include "model/model_size.h"

#include "model/weights.h"

namespace kvc {
namespace {

void add_matrix(ModelSize& size, int64_t rows, int64_t columns, bool has_bias) {
  size.n_parameters += rows * columns + (has_bias ? rows : 0);
  size.n_in_matrices += rows * columns;
  size.n_matrix_rows += rows;
}

void add_layer(ModelSize& size, const ModelConfig& config, const LayerConfig& layer) {
  const auto& architecture = *config.architecture;
  const int64_t hidden = config.hidden_size, q_rows = config.n_heads * config.head_dim;
  const int64_t n_up = architecture.gated_mlp ? 2 : 1;
  add_matrix(size, q_rows + 2 * config.n_kv_heads * config.head_dim, hidden, config.qkv_bias);
  add_matrix(size, hidden, q_rows, config.output_bias);
  if (layer.has_experts) {
    const bool has_bias = architecture.experts.biases;
    add_matrix(size, config.experts.n_experts, hidden, has_bias);
    for (int64_t e = 0; e < config.experts.n_experts; ++e) {
      add_matrix(size, n_up * config.experts.intermediate_size, hidden, has_bias);
      add_matrix(size, hidden, config.experts.intermediate_size, has_bias);
    }
  } else {
    add_matrix(size, n_up * config.intermediate_size, hidden, config.mlp_bias);
    add_matrix(size, hidden, config.intermediate_size, config.mlp_bias);
  }
  const int64_t n_norms = config.norms == NormPlace::around ? 4 : 2;
  size.n_parameters += n_norms * hidden * (architecture.layer_norm ? 2 : 1);
  if (architecture.head_norms == HeadNorms::each) size.n_parameters += 2 * config.head_dim;
  if (architecture.head_norms == HeadNorms::merged) size.n_parameters += q_rows + config.n_kv_heads * config.head_dim;
  if (architecture.sinks) size.n_parameters += config.n_heads;
}

}  // namespace

ModelSize model_size(const ModelConfig& config) {
  const auto& architecture = *config.architecture;
  const int64_t hidden = config.hidden_size, width = config.embedding_size;
  ModelSize size;
  size.n_parameters = config.vocab_size * width;
  if (architecture.learned_positions) {
    size.n_parameters += (kUnusedPositions + config.max_position_embeddings) * hidden;
  }
  if (width != hidden) size.n_parameters += 2 * hidden * width;
  for (const auto& layer : config.layers) add_layer(size, config, layer);
  if (config.norms != NormPlace::after_sum) size.n_parameters += hidden * (architecture.layer_norm ? 2 : 1);
  if (!config.tied_embeddings) size.n_parameters += config.vocab_size * width;
  return size;
}

int64_t weights_bytes(const ModelSize& size, WeightType type) {
  switch (type) {
    case WeightType::fp32:
      return 4 * size.n_parameters;
    case WeightType::bits16:
      return 2 * size.n_parameters;
    case WeightType::int8:
      return size.n_in_matrices + 4 * size.n_matrix_rows + 2 * (size.n_parameters - size.n_in_matrices);
  }
  throw Error("weights_bytes: not a WeightType");
}

int64_t kv_bytes_per_token_16bit(const ModelConfig& config) {
  return 2 * 2 * config.n_layers * config.n_kv_heads * config.head_dim;
}

}  // namespace kvc
