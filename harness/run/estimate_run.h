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

}  // namespace kvc
