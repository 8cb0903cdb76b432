// What a checkpoint is, by content.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>

namespace kvc {

// SHA-256 by name of every file that a model's numbers depend on: of a checkpoint folder, or a .gguf file. Those of
// large files are remembered unless verify.
nlohmann::json hash_model(const std::filesystem::path& model, bool verify = false);

}  // namespace kvc
