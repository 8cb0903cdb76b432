// Random search for one integer a layer (bits) of any compressor that has such an option, under a budget of bytes.
// Source: the search of TaDA (section 3 and appendix B), which leaves number, order and objective of its trials open.
#pragma once

#include <functional>
#include <string>

#include "experiment/experiment.h"
#include "experiment/paths.h"
#include "search/search_settings.h"
#include "search/search_space.h"
#include "store/result_store.h"

namespace kvc {

struct SearchResult {
  std::string key;     // of the row of `search`, whose candidates hold the rest
  std::string option;  // that was searched
  LayerPlan best;      // rank 1 of v_search_candidate
  int64_t n_scored = 0, n_present = 0;
};

// The experiment's grid with all samples of its tasks: calibration takes the last. Resolves the settings against its
// one compressor. Throws Error in one line.
Grid search_grid(const Experiment& experiment, const Paths& paths, SearchSettings& settings);

// The model's own answers, their likelihoods through candidates' caches, answers from the best candidates' caches.
// Steps are samples of a candidate; n_present of those done were in the store.
enum class SearchStage { answers, likelihoods, accuracy };
using OnSearchStep = std::function<void(SearchStage stage, int64_t n_done, int64_t n_present, int64_t n_total)>;

// settings: as search_grid left them. What the store holds of a search with the same calibration is not computed again.
// Throws Error in one line.
SearchResult search_layers(const Experiment& experiment, const Grid& grid, const SearchSettings& settings,
                           ResultStore& store, const OnSearchStep& on_step);

}  // namespace kvc
