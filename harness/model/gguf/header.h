// The header of one .gguf file, read and checked.
#pragma once

#include <map>
#include <string>

#include "gguf/gguf_file.h"

namespace kvc {

struct GgufHeader {
  std::map<std::string, GgufValue> metadata;
  std::map<std::string, GgufTensor> tensors;  // those of a file: within it, aligned, none over another
};

// Throws Error naming the file, what is wrong, where, and what was allowed.
GgufHeader read_gguf_header(const OpenFile& file);

}  // namespace kvc
