#include "text/program_paths.h"

#include <cstdlib>

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

}  // namespace kvc
