// What goes on in a database: runs that write it now, and how far their experiments are.
#pragma once

#include <string>
#include <vector>

#include "render/table.h"
#include "store/run_store.h"

namespace kvc {

// An experiment of one database.
struct ExperimentStatus {
  std::string database, experiment;
  int64_t n_cells_done = 0, n_cells_failed = 0, n_cells_left = 0;  // failed: nothing is missing but what failed
  int64_t n_done = 0, n_failed = 0, n_left = 0;                    // samples
  std::vector<RunRow> runs;                                        // of it, dead ones too
};

// Of all experiments of a database that is open for reading; its name is told.
std::vector<ExperimentStatus> experiment_statuses(Database& db);

// Of any number of databases. now: seconds since 1970. Notes say of each run where and at what it is, and where none is
// alive.
Table status_table(const std::vector<ExperimentStatus>& all, double now);

}  // namespace kvc
