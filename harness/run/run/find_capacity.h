// The largest batch, or the longest context, whose tensors stay within a limit.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "experiment/bench_experiment.h"
#include "run/bench_child.h"

namespace kvc {

struct FoundCapacity {
  int64_t computed = 0;  // from the bytes that caches hold a token and the workspace of two small runs
  int64_t tried = 0;     // the largest that ran within the limit; of a context, a multiple of kContextStep
  std::string error;     // why there is none
};

constexpr int64_t kContextStep = 64;

// The largest n of 0 ... most that fits, fits(0) taken for true; asked near the guess first, each n at most once.
int64_t largest_that(int64_t guess, int64_t most, const std::function<bool(int64_t n)>& fits);

// Runs points under the limit in children, each told to the watch. What the bench makes for itself is not counted.
FoundCapacity find_capacity(const BenchSetUp& set_up, const CapacitySearch& search, bool of_batch,
                            const BenchWatch& watch);

}  // namespace kvc
