// Generations that are stored, scored by their task's extractors as they are now.
#pragma once

#include "experiment/grid.h"
#include "store/result_store.h"

namespace kvc {

// Where the cell's scores are by another scoring than its task's, or samples failed as they were scored; one line says
// so, and one more each sample that cannot be scored. Returns how many cannot. No model; one transaction.
int64_t score_stored(const Grid::Cell& cell, const Grid::Task& task, ResultStore& store);

}  // namespace kvc
