// From what is written down of a compressor to the compressor: a plugin, or a composition of plugins.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "compose/compose.h"
#include "run/worker.h"
#include "store/result_store.h"

namespace kvc {

struct BuiltCompressor {
  Part part;
  nlohmann::json resolved;       // every option of every plugin, with the value in force
  std::vector<StageRow> stages;  // the plugins in order; a plain compressor is one
};

// For a model of n_layers. Throws Error with the place in the experiment's file where that is known.
BuiltCompressor build_compressor(const WorkerCompressor& written, int64_t n_layers);

}  // namespace kvc
