// The table of task groups behind a summary.
#pragma once

#include "store/summary.h"
#include "store/table.h"

namespace kvc {

// Of tasks/groups.yaml; without columns where no group has a score.
Table groups_of(Database& db, const SummaryOptions& options);

}  // namespace kvc
