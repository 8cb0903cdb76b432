#pragma once

#include <filesystem>

#include "store/result_store.h"

namespace kvc {

// The database, made with its folder where there is none. What goes wrong is an EnvironmentError: by what the machine
// refuses, not by what the user wrote.
ResultStore open_store(const std::filesystem::path& path);

}  // namespace kvc
