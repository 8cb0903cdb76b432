// What a model's weights are stored as.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace kvc {

// Of a model folder the types of its tensors, the one with most bytes first: "BF16", "F16, F32".
std::string weights_format(const std::filesystem::path& model);

// Bytes of the files that hold the weights.
int64_t weights_file_bytes(const std::filesystem::path& model);

}  // namespace kvc
