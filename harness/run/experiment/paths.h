// Where the project's own files lie.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "text/program_paths.h"

namespace kvc {

// `path` below the root where that exists and `path` itself does not; else as given.
std::filesystem::path below_root(const Paths& paths, const std::filesystem::path& path);

// The file that names an experiment: a path as below_root finds it, or a word, such as quickstart, for the one of configs/.
// Throws Error, with the nearest, for a word that names none.
std::filesystem::path experiment_file(const Paths& paths, const std::string& name);

// The folders to look for plugins in, in order: the given ones, then the plugins built with this program.
std::vector<std::filesystem::path> plugin_folders(const std::vector<std::string>& searched_first, const Paths& paths);

// A folder, or a .gguf file.
bool is_model_path(const std::filesystem::path& path);

}  // namespace kvc
