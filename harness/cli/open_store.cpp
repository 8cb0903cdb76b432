#include "cli/open_store.h"

#include "kvc/check.h"

namespace kvc {

ResultStore open_store(const std::filesystem::path& path) {
  try {
    if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path());
    return ResultStore::open(path);
  } catch (const std::exception& e) {
    throw EnvironmentError(e.what());
  }
}

}  // namespace kvc
