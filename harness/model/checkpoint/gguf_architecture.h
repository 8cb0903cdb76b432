// The decoder families as GGUF files call them, each a row of one table, and which of their keys say what config.json
// says. Facts: llama.cpp's converters and the gguf package's constants.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "gguf/gguf_file.h"

namespace kvc {

struct GgufArchitecture {
  const char* name;            // general.architecture
  const char* hugging_face;    // a row of architectures()
  const char* only_with = "";  // a key, below the architecture's name, that is there and not 0; "": none
  const char* more = "{}";     // JSON: what the family's files do not say, under rope_scaling's name what YaRN's do not
  // Keys below the architecture's name, and the fields of config.json that say the same.
  std::vector<std::pair<const char*, const char*>> fields = {};
  std::vector<const char*> idle = {};  // keys without effect in this family
  // Rows of Q and K stand as rotations of neighbouring channels want them; Hugging Face rotates halves.
  bool swaps_rows = false;
  bool has_window = false;    // attention.sliding_window is read
  int64_t absent_window = 0;  // tokens where the key is absent
  int64_t window_period = 0;  // all layers but each period-th have the window, unless the file says which; 0: all have
  int64_t width_scale_layers = 0;  // a model of so many layers has attention scale (hidden / heads)^-1/2, others D^-1/2
  bool finetuned_is_rope = false;  // rope.scaling.finetuned false: no RoPE
};

// The first row that the file fits. Throws Error naming the file, what is missing and the supported ones.
const GgufArchitecture& architecture_of(const GgufFile& file);

// Whether the family of this Hugging Face architecture has swapped rows in GGUF files.
bool swaps_rows_in_gguf(const std::string& hugging_face);

}  // namespace kvc
