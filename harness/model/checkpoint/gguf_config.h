// What a GGUF file says of its model, in the words of Hugging Face's files.
#pragma once

#include <string>

#include "checkpoint/model_config.h"
#include "gguf/gguf_file.h"

namespace kvc {

// Throws Error naming file, key, value and what is supported; so does a key of the architecture that is not known.
ModelConfig load_gguf_config(const GgufFile& file);

// The types of the layers' matrices, those of the most values first: "Q4_K, Q6_K".
std::string weights_format(const GgufFile& file);

}  // namespace kvc
