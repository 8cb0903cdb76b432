// Where the project's own files lie.
#pragma once

#include <filesystem>
#include <string>

namespace kvc {

struct Paths {
  std::filesystem::path program;  // this executable
  std::filesystem::path root;     // holds tasks/, prompts/, configs/, models/
  std::filesystem::path plugins;  // the plugins built with this program
};

// From the executable's place: <build>/bin/kvc, plugins in <build>/plugins; the root is KVC_ROOT, or the nearest folder
// above the executable that holds tasks/. Throws Error when there is none.
Paths find_paths();

// `path` as given when it exists or is absolute, else below the root.
std::filesystem::path below_root(const Paths& paths, const std::filesystem::path& path);

}  // namespace kvc
