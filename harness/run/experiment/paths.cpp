#include "experiment/paths.h"

#include <algorithm>

#include "gguf/gguf_file.h"
#include "kvc/check.h"
#include "text/nearest.h"

namespace kvc {

namespace fs = std::filesystem;

fs::path below_root(const Paths& paths, const fs::path& path) {
  std::error_code refused;  // a path that is too long is no path from here
  if (path.is_absolute() || fs::exists(path, refused) || !fs::exists(paths.root / path, refused)) return path;
  return paths.root / path;
}

fs::path experiment_file(const Paths& paths, const std::string& name) {
  const auto file = below_root(paths, name);
  std::error_code refused;
  const bool is_word = !name.empty() && name.find_first_of("./\n") == std::string::npos;
  if (!is_word || fs::exists(file, refused)) return file;
  std::vector<std::string> known;
  for (const auto& entry : fs::directory_iterator(paths.root / "configs", refused)) {
    if (entry.path().extension() == ".yaml") known.push_back(entry.path().stem());
  }
  std::ranges::sort(known);
  KVC_CHECK(std::ranges::find(known, name) != known.end(), unknown_name("experiment", name, known),
            "; or the path of a file");
  return paths.root / "configs" / (name + ".yaml");
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
