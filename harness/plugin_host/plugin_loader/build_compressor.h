// From what is written down of a compressor to the compressor: a plugin, or a composition of plugins.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "compose/compose.h"
#include "contract/stage_row.h"
#include "plugin_loader/plugin_library.h"
#include "wire/compressor_choice.h"

namespace kvc {

struct BuiltCompressor {
  Part part;
  nlohmann::json resolved;            // every option of every plugin, with the value in force
  std::vector<StageRow> stages;       // the plugins in order; a plain compressor is one
  std::vector<std::string> runtimes;  // of each (PluginLibrary)
};

// For a model of that shape, with the calibrations that options name; identity is the model's (calibration.h), or empty
// where there is none to hold them against. Throws Error with the place in the experiment's file where that is known.
BuiltCompressor build_compressor(const CompressorChoice& written, const ModelShape& model,
                                 const std::string& identity = "");

// The plugin of a choice that is one, where its code is to run.
PluginLibrary library_of(const CompressorChoice& plugin);

// Of all its plugins, none of whose code runs: throws Error, with that place, where one is not the file that the run
// began with.
void check_plugin_files(const CompressorChoice& written);

}  // namespace kvc
