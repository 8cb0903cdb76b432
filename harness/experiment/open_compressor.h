// From an experiment's entry to what is known of the compressor before anything runs.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "store/result_store.h"
#include "wire/compressor_choice.h"
#include "wire/messages.h"

namespace kvc {

struct OpenedCompressor {
  CellRecord record;   // the plugin's part of it
  nlohmann::json key;  // what of it a result depends on
};

// Opens the plugins in the first of `folders` that has each, makes the compressor once and asks it whether it can serve
// the model (`model`: its identity, see calibration.h, or ""). Files that options name are relative to `folder`. What a
// worker builds it from is added to `compressors`. Throws Error with the place in the experiment's file.
OpenedCompressor open_compressor(const CompressorChoice& choice, const std::filesystem::path& folder,
                                 const std::vector<std::filesystem::path>& folders, const ModelShape& shape,
                                 const std::string& model, std::vector<CompressorChoice>& compressors);

}  // namespace kvc
