#pragma once

#include <filesystem>

#include "text/temporary_folder.h"

namespace kvc {

// The database, or where an earlier kvc wrote it, a copy of it in `folder` that is brought up to date; says so on
// stderr.
std::filesystem::path current_database(const std::filesystem::path& database, TemporaryFolder& folder);

}  // namespace kvc
