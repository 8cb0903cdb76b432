// A file of the data folder that a program of a Debian package prints.
#pragma once

#include <filesystem>

#include "fetch/data_sources.h"

namespace kvc {

// Runs the source's command by the shell and keeps what it prints as `to`, which appears whole, by a rename. Throws
// Error naming the package where the command fails, and both values where what it printed has another size or hash than a
// source that knows them.
void make_data(const DataSource& source, const std::filesystem::path& to);

}  // namespace kvc
