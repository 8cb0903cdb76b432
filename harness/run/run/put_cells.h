// An experiment's cells into the database, as its definition is now.
#pragma once

#include "experiment/experiment.h"
#include "store/result_store.h"

namespace kvc {

// What changed since the experiment was last run into this database is said on standard error; cells in whose place
// others stand now become its older ones. Where nothing but a limit was put over its file, so do cells whose compressor
// is gone from a task: else they may be what was left out for once. is_part: of the experiment's cells.
void put_cells(const std::vector<const CellRecord*>& cells, const std::string& experiment, const ConfigFile& config,
               ResultStore& store, bool is_part = false);

}  // namespace kvc
