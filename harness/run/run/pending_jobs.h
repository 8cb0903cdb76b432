// What a run has still to do.
#pragma once

#include <deque>
#include <vector>

#include "prompt/encode_prompt.h"
#include "run/run_experiment.h"
#include "run/work_estimate.h"

namespace kvc {

// One sample of one task for the compressors that miss it.
struct PendingJob {
  size_t task, sample;
  std::vector<int> compressors;
  bool alone = false;  // with one compressor and nothing beside it: a worker died with it among others
  bool tried = false;  // a worker died of it alone, outside the plugin
  EncodedPrompt prompt = {};
  std::vector<int64_t> sizes = {};  // no sample: what the compressor's caches of so many tokens hold
  WorkEstimate::Prompt work = {};   // as guessed before it is given
  bool was_taken = false;           // by another run, when it was last asked for
};

// Task by task, sample by sample; counts them in `plan`. store may be null: nothing is finished. fan_out: one job
// serves all compressors that miss the sample.
std::deque<PendingJob> missing_jobs(const Grid& grid, ResultStore* store, bool fan_out, RunPlan& plan);

// One for each compressor whose eval cells lack one of the experiment's sizes, alone, whatever task it names.
std::deque<PendingJob> missing_sizes(const Grid& grid, ResultStore& store, const std::vector<int64_t>& sizes);

}  // namespace kvc
