// Runs what is missing of a grid: jobs to worker processes, results to the store.
#pragma once

#include <functional>

#include "experiment/grid.h"
#include "store/result_store.h"
#include "store/run_store.h"

namespace kvc {

struct RunOutcome {
  int64_t n_run = 0;      // samples run now, ok or failed
  int64_t n_failed = 0;   // of these, and of stored ones that could not be scored
  int64_t n_present = 0;  // samples that were there already
  int signal = 0;         // Ctrl-C, SIGTERM or SIGUSR1 that ended the run early; 0: none did
};

// What a run would do, without doing it.
struct RunPlan {
  int64_t n_missing = 0, n_present = 0;
  int64_t n_prompts = 0;  // prefills; one serves all compressors that miss the sample
};
RunPlan plan_run(const Grid& grid, const Experiment& experiment, ResultStore* store);  // store may be null

// Called a few times a second while a run goes on, between two transactions, with how far it is.
using RunWatch = std::function<void(const RunRow&)>;

// One transaction a sample; a signal ends the run behind the one under way. A worker that dies fails the sample its
// plugin was working on and is replaced.
RunOutcome run_grid(const Grid& grid, const Experiment& experiment, ResultStore& store, const RunWatch& watch = {});

}  // namespace kvc
