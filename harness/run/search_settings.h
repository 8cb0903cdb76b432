// What is asked of a search, resolved against the plugin, and its row in the database.
#pragma once

#include <string>
#include <vector>

#include "plugin/plugin_library.h"
#include "run/search_score.h"

namespace kvc {

struct SearchSettings {
  std::string option;           // an `integers` option of the experiment's one compressor; "": its only one
  std::vector<int64_t> levels;  // of those the option allows; {}: all of them
  double budget = 0.3;          // bytes held, of the same tokens at 16 bits
  int64_t n_candidates = 200;
  int64_t n_rescored = 10;  // best by likelihood, whose accuracy decides
  int64_t n_samples = 64;   // calibration samples of each task
  int64_t seed = 0;         // of random plans
};

// With the option where it was left open, and the levels. Throws Error where the plugin does not offer them or the
// experiment sets the option.
SearchSettings resolved(SearchSettings settings, const PluginLibrary& library, const CompressorChoice& choice);

// All but what the model's answers give: their tokens and bytes. settings: resolved.
SearchRecord search_record(const Experiment& experiment, const Grid& grid, const SearchSettings& settings,
                           const std::vector<SearchSample>& samples);

}  // namespace kvc
