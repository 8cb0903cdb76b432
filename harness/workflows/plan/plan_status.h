// How far a plan is, as its shards' files say it. Nothing is opened for writing, and what is read was brought whole.
#pragma once

#include <vector>

#include "plan/plan.h"
#include "render/table.h"

namespace kvc {

// now: seconds since 1970. One row of all, one for each experiment of several. Notes name the shards that failed, with
// the end of their logs, and those that have been silent for minutes.
Table plan_status_table(const Plan& plan, double now);

}  // namespace kvc
