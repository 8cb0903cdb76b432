// Weights of a model's shape that nobody trained: times do not depend on what they are.
#pragma once

#include <cstdint>

#include "model/weights.h"

namespace kvc {

// As load_weights makes them of a checkpoint: matrices normal with 1/sqrt(columns) as their deviation, norms 1, biases
// 0.
Weights draw_weights(const ModelConfig& config, const LoadOptions& options, uint64_t seed);

}  // namespace kvc
