#include "experiment/paths.h"

#include <cstdlib>

#include "gguf/gguf_file.h"
#include "kvc/check.h"

namespace kvc {

namespace fs = std::filesystem;

Paths find_paths() {
  Paths paths;
  paths.program = fs::read_symlink("/proc/self/exe");
  const auto prefix = paths.program.parent_path().parent_path();
  const auto shared = prefix / "share/kvc", installed_plugins = prefix / "lib/kvc/plugins";
  paths.plugins = fs::is_directory(installed_plugins) ? installed_plugins : prefix / "plugins";
  if (const char* root = std::getenv("KVC_ROOT")) {
    paths.root = root;
    KVC_CHECK(fs::is_directory(paths.root / "tasks"), "KVC_ROOT is '", root, "', which has no folder 'tasks'");
    return paths;
  }
  if (fs::is_directory(shared / "tasks")) {
    paths.root = shared;
    return paths;
  }
  for (auto folder = paths.program.parent_path(); folder != folder.root_path(); folder = folder.parent_path()) {
    if (fs::is_directory(folder / "tasks") && fs::is_directory(folder / "harness")) {
      paths.root = folder;
      return paths;
    }
  }
  throw Error(
      concat("no folder above '", paths.program.string(), "' holds tasks/; set KVC_ROOT to the project's folder"));
}

fs::path below_root(const Paths& paths, const fs::path& path) {
  std::error_code refused;  // a path that is too long is no path from here
  if (path.is_absolute() || fs::exists(path, refused)) return path;
  return paths.root / path;
}

bool is_model_path(const fs::path& path) {
  return fs::is_directory(path) || (is_gguf(path) && fs::is_regular_file(path));
}

std::vector<fs::path> plugin_folders(const std::vector<std::string>& searched_first, const Paths& paths) {
  std::vector<fs::path> folders(searched_first.begin(), searched_first.end());
  folders.push_back(paths.plugins);
  return folders;
}

}  // namespace kvc
