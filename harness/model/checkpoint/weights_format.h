// What a model's weights are stored as.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace kvc {

// The types of what is stored, the one with the most first: of a model folder's tensors ("BF16", "F16, F32"), of the
// matrices of a .gguf file's layers ("Q4_K, Q6_K").
std::string weights_format(const std::filesystem::path& model);

// Bytes of the files that hold the weights.
int64_t weights_file_bytes(const std::filesystem::path& model);

}  // namespace kvc
