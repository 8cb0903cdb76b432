// GGUF files of models whose head is their embedding often hold the matrix twice, quantized to two types.
#pragma once

#include "checkpoint/model_config.h"
#include "checkpoint/tensor_source.h"

namespace kvc {

// Whether the head that the tensors hold is the embedding again: each of 64 rows, taken over the whole vocabulary, has a
// cosine of at least 0.9 with the other's row, which rounding to 4 bits leaves. False where one of them is missing.
bool repeats_embedding(const TensorSource& tensors, const ModelConfig& config);

}  // namespace kvc
