// The table of task groups behind a summary.
#pragma once

#include "analysis/summary.h"
#include "render/table.h"
#include "store/database.h"

namespace kvc {

// Of tasks/groups.yaml; without columns where no group has a score.
Table groups_of(Database& db, const SummaryOptions& options);

}  // namespace kvc
