// What config.json says of single layers: windows, RoPE, experts.
#pragma once

#include "checkpoint/model_config.h"
#include "text/json_reader.h"

namespace kvc {

// Sets layers, sliding_window and experts. Throws Error naming field, value and what is allowed, also where two fields
// contradict each other.
void read_layers(const JsonObject& config, ModelConfig& model);

}  // namespace kvc
