// What a GGUF file says of its model, in the words of Hugging Face's files.
#pragma once

#include <string>

#include "checkpoint/model_config.h"
#include "gguf/gguf_file.h"

namespace kvc {

// A family of models as GGUF files call it (general.architecture).
struct GgufArchitecture {
  const char* name;
  const char* hugging_face;  // a row of architectures()
  // Rows of Q and K stand as rotations of neighbouring channels want them; Hugging Face rotates halves.
  bool swaps_rows;
  const char* window_flag = nullptr;  // of config.json, where a window is no window without it
};
// Throws Error naming the file and the supported ones.
const GgufArchitecture& architecture_of(const GgufFile& file);

// Throws Error naming file, key, value and what is supported; so does a key of the architecture that is not known.
ModelConfig load_gguf_config(const GgufFile& file);

// The types of the layers' matrices, those of the most values first: "Q4_K, Q6_K".
std::string weights_format(const GgufFile& file);

}  // namespace kvc
