// Results databases that are published packed.
#pragma once

#include <filesystem>

#include "text/temporary_folder.h"

namespace kvc {

// Of NAME.sqlite.xz an unpacked copy in `folder`, upgraded where an earlier kvc wrote it; any other file as it is.
// Throws Error, naming the file.
std::filesystem::path unpacked(const std::filesystem::path& database, TemporaryFolder& folder);

}  // namespace kvc
