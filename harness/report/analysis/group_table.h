// Scores of groups of tasks: means over samples, over tasks, and over other groups.
#pragma once

#include <vector>

#include "analysis/summary.h"
#include "render/table.h"
#include "store/database.h"
#include "task/task_groups.h"

namespace kvc {

// One row a compressor, one column a group that has a score; a mean of which members are missing says of how many it
// is. Cells that are suspect count as missing, unless asked for. Without such a column the table is empty.
Table group_table(Database& db, const SummaryOptions& options, const std::vector<TaskGroup>& groups);

}  // namespace kvc
