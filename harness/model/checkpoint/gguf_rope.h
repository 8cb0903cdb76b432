// A GGUF file's rotation: its keys below rope., and the tensors rope_freqs, rope_factors_long and rope_factors_short.
#pragma once

#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "checkpoint/gguf_metadata.h"
#include "checkpoint/model_config.h"

namespace kvc {

// rope_scaling as config.json has it, or null. n_rotated: channels of a head that are rotated. The keys that were read
// join `read`. Throws Error naming file, key or tensor, value and what is supported.
nlohmann::json gguf_rope_scaling(const GgufMetadata& metadata, int64_t n_rotated, std::set<std::string>& read);

// Llama 3.1's scaling, which stands in a tensor: into the model's rotations.
void read_rope_divisors(const GgufFile& file, ModelConfig& model);

bool is_rope_tensor(const std::string& name);

}  // namespace kvc
