// Where the project's own files lie.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace kvc {

struct Paths {
  std::filesystem::path program;  // this executable
  std::filesystem::path root;     // holds tasks/, prompts/, configs/, models/
  std::filesystem::path plugins;  // the plugins built with this program
};

// From the executable's place. Built: <build>/bin/kvc, plugins in <build>/plugins, the root the nearest folder above
// that holds tasks/. Installed: <prefix>/bin/kvc, <prefix>/lib/kvc/plugins, <prefix>/share/kvc. KVC_ROOT sets another
// root. Throws Error where there is none.
Paths find_paths();

// `path` as given when it exists or is absolute, else below the root.
std::filesystem::path below_root(const Paths& paths, const std::filesystem::path& path);

// The folders to look for plugins in, in order: the given ones, then the plugins built with this program.
std::vector<std::filesystem::path> plugin_folders(const std::vector<std::string>& searched_first, const Paths& paths);

// A folder, or a .gguf file.
bool is_model_path(const std::filesystem::path& path);

}  // namespace kvc
