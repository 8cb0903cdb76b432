// How large a model is, from its config.json alone.
#pragma once

#include <cstdint>

#include "checkpoint/model_config.h"

namespace kvc {

struct ModelSize {
  int64_t n_parameters = 0;   // tied embeddings count once
  int64_t n_in_matrices = 0;  // of these, in the layers' matrices
  int64_t n_matrix_rows = 0;  // of the same matrices: one output channel each
};

ModelSize model_size(const ModelConfig& config);

// 4 and 2 bytes a parameter; int8: 1 byte a weight of the layers' matrices, an fp32 scale a row, 2 bytes for all else.
enum class WeightType { fp32, bits16, int8 };
int64_t weights_bytes(const ModelSize& size, WeightType type);

// K and V of one token in all layers, 2 bytes a number.
int64_t kv_bytes_per_token_16bit(const ModelConfig& config);

}  // namespace kvc
