// The RoPE settings of config.json.
#pragma once

#include "checkpoint/model_config.h"
#include "text/json_reader.h"

namespace kvc {

// rope_parameters {rope_type, rope_theta, ...}, or one such object per layer type, since transformers 5; before that
// rope_theta and rope_scaling {type, ...}. Sets rope, local_rope and query_growth. Throws Error naming field, value and
// what is allowed.
void read_ropes(const JsonObject& config, ModelConfig& model);

}  // namespace kvc
