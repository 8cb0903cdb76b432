// Where the program's own files lie.
#pragma once

#include <filesystem>

namespace kvc {

struct Paths {
  std::filesystem::path program;  // this executable
  std::filesystem::path root;     // holds tasks/, prompts/, configs/, models/
  std::filesystem::path plugins;  // the plugins built with this program

  std::filesystem::path python() const { return root / "python"; }  // holds the Python package kvc
};

// From the executable's place. Built: <build>/bin/kvc, plugins in <build>/plugins, the root the nearest folder above
// that holds tasks/. Installed: <prefix>/bin/kvc, <prefix>/lib/kvc/plugins, <prefix>/share/kvc. KVC_ROOT sets another
// root. Throws Error where there is none.
Paths find_paths();

}  // namespace kvc
