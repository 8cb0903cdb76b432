// How long an experiment will take, before it runs.
#pragma once

#include <optional>
#include <string>

#include "run/run_experiment.h"

namespace kvc {

struct TimeEstimate {
  std::optional<double>
      seconds;     // of the clock, with the experiment's workers; nothing where there is nothing to go by
  std::string by;  // what it goes by; or why there is none, and how to get one
};

// By the model's samples in `store` (which may be null); without any by a trial of a few tokens with each compressor,
// in a worker of its own.
TimeEstimate estimate_run(const Grid& grid, const Experiment& experiment, ResultStore* store);

// "about 5 minutes with 2 workers, by ...", or why there is no estimate; ends its line.
std::string time_line(const TimeEstimate& time, const Experiment& experiment);

// Of one cell of a grid, alone.
struct CellEstimate {
  int64_t n_missing = 0;  // samples
  double n_tokens = 0;    // of the longest sequence: its prompt, and its answer's limit
  // Of the clock; nothing where there is nothing to go by. The prompts' part is the task's: its cells share it.
  std::optional<double> prefill_seconds, seconds;
};

struct CellEstimates {
  std::vector<CellEstimate> cells;  // as the grid has them
  std::string by;                   // as in TimeEstimate
};

// As estimate_run() does, cell by cell. done: whose samples are not missing; pilot: whose times are gone by; either may
// be null. Prompts of other cells of the same task in the same process are not computed again, which is not counted
// off.
CellEstimates estimate_cells(const Grid& grid, const Experiment& experiment, ResultStore* done, ResultStore* pilot);

}  // namespace kvc
