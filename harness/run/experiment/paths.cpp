#include "experiment/paths.h"

#include "gguf/gguf_file.h"

namespace kvc {

namespace fs = std::filesystem;

fs::path below_root(const Paths& paths, const fs::path& path) {
  std::error_code refused;  // a path that is too long is no path from here
  if (path.is_absolute() || fs::exists(path, refused) || !fs::exists(paths.root / path, refused)) return path;
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
