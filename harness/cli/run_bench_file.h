// What `kvc run` does with a file of kind bench or capacity.
#pragma once

#include <string>
#include <vector>

#include "experiment/paths.h"

namespace kvc {

// database "": results/<name>.sqlite. Prints the table; returns the exit code.
int run_bench_file(const Paths& paths, const std::string& file, const std::vector<std::string>& settings,
                   const std::string& database, bool dry_run);

}  // namespace kvc
