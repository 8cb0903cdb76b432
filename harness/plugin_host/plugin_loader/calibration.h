// Calibration files: one safetensors file of what a method learned of a model from texts, with what it was made from.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kvc/calibration.h"
#include "plugin_loader/plugin_library.h"

namespace kvc {

struct Calibration {
  std::string plugin;
  nlohmann::json options;          // those that a run must share
  std::string model_identity;      // of its files
  std::vector<std::string> texts;  // SHA-256 of each
  int64_t n_pieces = 0, n_tokens = 0;
  bool has_gradients = false;
  NamedTensors tensors;
};

void write_calibration(const std::filesystem::path& path, const Calibration& calibration);
// Throws Error in one line where the file cannot be read or is no calibration.
Calibration read_calibration(const std::filesystem::path& path);

// Names a model by the content of its weights and config.json. hashes: SHA-256 by file name, as hash_model gives them.
std::string model_identity(const nlohmann::json& hashes);

// A compressor with the calibration that its options name, if any. Throws Error where that is of another plugin, model
// or options. identity: the model's, or empty where there is none to hold it against.
std::unique_ptr<Compressor> make_calibrated(const PluginLibrary& library, const nlohmann::json& options,
                                            const ModelShape& model, const std::string& identity,
                                            nlohmann::json* resolved = nullptr);

}  // namespace kvc
