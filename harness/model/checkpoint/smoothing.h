// Smoothing files: the largest inputs of a model's matrices over some texts, as `kvc smooth` measures them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "checkpoint/model_config.h"
#include "checkpoint/quantization.h"
#include "contract/quantization_choice.h"

namespace kvc {

struct SmoothingFile {
  std::string model;               // smoothing_identity of the model
  std::vector<std::string> texts;  // SHA-256 of each
  int64_t n_tokens = 0;
  InputMaxima maxima;
};

void write_smoothing(const std::filesystem::path& path, const SmoothingFile& file);
// Throws Error in one line where it is no such file.
SmoothingFile read_smoothing(const std::filesystem::path& path);

// Names a model by its weights and config.json. hashes: SHA-256 by file name
std::string smoothing_identity(const nlohmann::json& hashes);

// -> what a cell's key and its model say of it; {} where nothing is quantized. Throws Error in one line where a group
// does not divide a matrix, the smoothing file is missing or of another model, or the model cannot be smoothed.
nlohmann::json check_quantization(const QuantizationChoice& choice, const ModelConfig& config,
                                  const nlohmann::json& hashes);
// As the model takes it.
Quantization load_quantization(const QuantizationChoice& choice);

}  // namespace kvc
