// What a checkpoint is, by content.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>

namespace kvc {

// SHA-256 by name of every file that a checkpoint's numbers depend on. Those of large files are remembered unless
// verify.
nlohmann::json hash_model(const std::filesystem::path& folder, bool verify = false);

}  // namespace kvc
