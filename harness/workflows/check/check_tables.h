// What `kvc check` found, as tables.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "check/check_results.h"
#include "check/check_verdict.h"
#include "checkpoint/model_config.h"
#include "contract/prefill_choice.h"
#include "render/table.h"

namespace kvc {

struct ModelFindings {
  std::string model_name;  // as the user names it
  std::string error;       // why it could not be checked; nothing below is then known
  nlohmann::json hashes;   // SHA-256 by file
  ModelConfig config;
  CheckSettings settings;
  int64_t context = 0;
  int64_t n_size_tokens = 0;  // of the caches whose bytes are measured
  PrefillChoice prefill;      // of the experiment
  std::vector<CheckedTask> tasks;
  KeyChannels keys;
  int64_t n_looks = 0;                // at the results: the first, and one each time that text was added
  std::vector<PresetResult> presets;  // of several models the same ones in the same order
};

// A row a preset with all figures, and then those of each length.
Table verdict_table(const ModelFindings& found);
Table length_table(const ModelFindings& found);
Table tail_table(const ModelFindings& found);    // KL token by token, over all lengths
Table paired_table(const ModelFindings& found);  // each preset minus the best one that is no larger, on the same tokens

// The verdicts of stored results: of an experiment that scored text, or of "all" those (then in one table), by the
// bounds of `settings`. Throws Error where there is none.
Table stored_verdicts(Database& db, const std::string& experiment, const CheckSettings& settings);

// A table of verdicts without what decided each, which is no matter for a paper.
Table for_paper(Table verdicts);

// A row a preset, a column a model; the notes say why a cell holds no verdict. At least one model was checked.
Table verdict_matrix(const std::vector<ModelFindings>& models);

// A row a model: its shape, and what its keys are like.
Table key_table(const std::vector<ModelFindings>& models);

}  // namespace kvc
