// From an experiment's entries to what is known of the compressors before anything runs.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "experiment/experiment.h"
#include "experiment/isolation_choice.h"
#include "experiment/paths.h"
#include "experiment/read_compressors.h"
#include "store/result_store.h"
#include "wire/compressor_choice.h"
#include "wire/messages.h"

namespace kvc {

// Where compressors come from, and the model that they are to serve.
struct CompressorPlace {
  std::filesystem::path folder;                // files that options name are relative to it
  std::vector<std::filesystem::path> plugins;  // folders, the first that has a plugin counts
  std::string allow_plugins;                   // a list of the plugins that may be opened (plugin_trust.h); "": all
  ModelShape shape;
  std::string model_identity;                  // of its files (calibration.h), or ""
  std::vector<std::string> devices = {"cpu"};  // where its caches are to live
  bool prompt_in_chunks = false;               // its caches get prompts in several appends
  IsolationChoice isolation = {};
};

struct OpenedCompressor {
  CompressorChoice choice;  // what a worker builds it from
  CellRecord record;        // the plugin's part of it
  nlohmann::json key;       // what of it a result depends on
  std::string refused;      // why it cannot serve the model; "": it can
};

enum class Refused { kThrown, kKept };

// Finds and hashes the plugins' files here; opens them in a child process, makes each compressor once and asks it
// whether it can serve the model. Throws Error with the place in the experiment's file.
std::vector<OpenedCompressor> open_compressors(const std::vector<CompressorChoice>& choices,
                                               const CompressorPlace& place, Refused refused = Refused::kThrown);

// Where the experiment's compressors come from; shape and identity are its model's.
CompressorPlace compressor_place(const Experiment& experiment, const Paths& paths, const ModelShape& shape,
                                 const std::string& identity);

// "x.yaml:5:5: error: plugin 'kivi'"
std::string name_in_errors(const CompressorChoice& choice);

}  // namespace kvc
