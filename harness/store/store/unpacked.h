// Results databases that are published packed.
#pragma once

#include <filesystem>

#include "text/temporary_folder.h"

namespace kvc {

// The file, or a copy of it in `folder`: unpacked of NAME.sqlite.xz, brought up to date where an earlier kvc wrote it.
// Throws Error, naming the file.
std::filesystem::path unpacked(const std::filesystem::path& database, TemporaryFolder& folder);

// A copy in `folder` of a database that is not packed, brought up to date.
std::filesystem::path upgraded_copy(const std::filesystem::path& database, TemporaryFolder& folder);

}  // namespace kvc
