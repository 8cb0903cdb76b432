// Runs what is missing of a bench or a capacity experiment: one child process a compressor, results to the store.
#pragma once

#include <cstdint>
#include <vector>

#include "experiment/bench_experiment.h"
#include "experiment/paths.h"
#include "run/bench_child.h"
#include "store/bench_store.h"

namespace kvc {

// One compressor at one point, or in one search.
struct BenchCell {
  size_t compressor, item;  // of the experiment's compressors; of its points or searches
  BenchSetUp set_up;
  CellRecord record;
};

// Compressor by compressor, checked as far as can be before anything runs. A key says all that a time depends on: what
// runs, point or limit, plugin binary, options, types, threads and the machine. Throws Error in one line.
std::vector<BenchCell> expand_bench(const BenchExperiment& experiment, const Paths& paths);

struct BenchOutcome {
  int64_t n_run = 0, n_failed = 0, n_present = 0;  // points, or searches
  int signal = 0;                                  // that ended the run early; 0: none did
};

// The repeats of a point are one transaction, and so are the rows of a search. What fails is told and left out.
BenchOutcome run_bench(const BenchExperiment& experiment, const std::vector<BenchCell>& cells, ResultStore& store);

}  // namespace kvc
