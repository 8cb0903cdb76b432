// The table that a run prints: one row a compressor and its options, one column a task.
#pragma once

#include <set>
#include <string>

#include "render/table.h"
#include "store/database.h"

namespace kvc {

struct SummaryOptions {
  std::string experiment = "all";        // a name, or "all"
  bool with_suspects = false;            // otherwise suspect cells are left out, and a note says so
  std::set<std::string> cell_keys = {};  // only these; empty: all of the experiment
};

// From results/tables/summary.sql. Throws Error naming the known experiments when there is none of that name.
Table summary_table(Database& db, const SummaryOptions& options = {});

// For a terminal of that width: mean accuracy against measured bytes, a letter a compressor that has all tasks; ""
// where there are fewer than two, or several models.
std::string plot_of_summary(Database& db, const SummaryOptions& options, size_t width);

}  // namespace kvc
