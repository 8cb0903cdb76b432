// Scores of a cell computed again from the generations that are stored; no model runs.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kvc/check.h"
#include "store/result_store.h"

namespace kvc {

struct StoredGeneration {
  int64_t sample = 0;
  std::string generation, gold;
};

struct RescoreCounts {
  int64_t n_samples = 0;  // of which scores were written
  int64_t n_changed = 0;  // scores with another answer or value than before, and new ones
  int64_t n_failed = 0;   // samples that could not be scored
  bool is_other = false;  // of score_anew: the cell's scores were by another scoring
};

// What `rescore` makes of each ok sample's generation replaces the scores of those extractors; it may throw Error,
// which `report` gets with the sample's number, and the sample keeps the scores it had. Scores of extractors that are
// not among `order`, the task's own in their order, stay and stand behind. `scoring_json` is the cell's from then on,
// unless it is empty or a sample failed. One transaction a cell.
RescoreCounts rescore_cell(Database& db, const std::string& cell_key, const std::vector<std::string>& order,
                           const std::function<std::vector<ScoreRow>(const StoredGeneration&)>& rescore,
                           const std::function<void(int64_t sample, const Error& error)>& report,
                           const std::string& scoring_json = "");

// Makes a cell's scores those of `scoring_json`, as a run would have stored them: of all samples where the cell's were
// by another scoring, else of those that failed with their generation stored. What `score` throws fails the sample,
// which keeps its generation, and goes to `report`. One transaction.
RescoreCounts score_anew(Database& db, const std::string& cell_key, const std::string& scoring_json,
                         const std::function<std::vector<ScoreRow>(const StoredGeneration&)>& score,
                         const std::function<void(int64_t sample, const Error& error)>& report);

}  // namespace kvc
