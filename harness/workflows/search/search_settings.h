// What is asked of a search, resolved against the plugin, and its row in the database.
#pragma once

#include <string>
#include <vector>

#include "plugin_loader/plugin_library.h"
#include "search/search_score.h"

namespace kvc {

// With the option where it was left open, and the levels. Throws Error where the plugin does not offer them or the
// experiment sets the option.
SearchSettings resolved(SearchSettings settings, const PluginLibrary& library, const CompressorChoice& choice);

// All but what the model's answers give: their tokens and bytes. settings: resolved.
SearchRecord search_record(const Experiment& experiment, const Grid& grid, const SearchSettings& settings,
                           const std::vector<SearchSample>& samples);

}  // namespace kvc
