// Cells dealt out to shards. Arithmetic alone.
#pragma once

#include <vector>

#include "plan/plan.h"

namespace kvc {

// The baselines first, then the longest predicted first, each to a shard that has its prompts computed for another
// cell, or its model loaded, while that is no longer than the mean; else to the one that it makes end the soonest.
// Cells without a time count by their samples. cells: of plan.cells; n_shards: at least 1. -> as many shards, or one a
// cell where these are fewer; within a shard experiment by experiment and task by task, those with a baseline first,
// then the longest.
std::vector<std::vector<size_t>> assign_cells(const Plan& plan, const std::vector<size_t>& cells, size_t n_shards);

// What a shard's cells take after each other, with its models' loading; nothing where the time of one is not known.
std::optional<double> shard_seconds(const Plan& plan, const std::vector<size_t>& cells);

}  // namespace kvc
