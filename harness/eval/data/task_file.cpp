#include "data/task_file.h"

#include <algorithm>

#include "fetch/data_sources.h"
#include "kvc/check.h"
#include "text/files.h"
#include "text/hash_cache.h"
#include "text/message.h"

namespace kvc {
namespace {

// "; `kvc data SUITE/TASK --fetch` fetches it" of a file of the data folder that data.yaml, above the suite's folder,
// knows.
std::string how_to_get(const TaskFile& file) {
  const auto list = file.folder.parent_path() / "data.yaml";
  if (file.root != TaskFile::Root::kDataDir || !is_file(list)) return "";
  const auto sources = load_data_sources(list);
  const auto source = sources.find(file.file);
  if (source == sources.end()) return "";
  const auto yaml = std::filesystem::path(file.where.substr(0, file.where.find(".yaml:"))).filename();
  const auto command = concat("`kvc data ", file.folder.filename().string(), "/", yaml.string());
  return source->second.may_fetch ? concat("; ", command, " --fetch` fetches it")
                                  : concat("; ", command, "` says where to get it");
}

}  // namespace

TaskFile read_task_file(YamlMap& map, const std::vector<std::string>& roots) {
  const auto file = map.required("file");
  const auto root = map.required_choice("root", roots);
  const std::filesystem::path path = file.string();
  const bool leaves = std::find(path.begin(), path.end(), "..") != path.end();
  if (path.empty() || path.is_absolute() || leaves) {
    file.fail(file.name(), " is ", file.found(), ", expected a path below root: ", root);
  }
  const auto kind = root == "task"       ? TaskFile::Root::kTask
                    : root == "data_dir" ? TaskFile::Root::kDataDir
                                         : TaskFile::Root::kPrompts;
  return {kind, file.string(), file.where(), std::filesystem::absolute(file.file()).parent_path()};
}

std::filesystem::path data_path(const std::string& file, const std::filesystem::path& data_dir) {
  const auto in_data = data_dir.empty() ? std::filesystem::path() : data_dir / file;
  if (is_file(in_data) || user_cache_folder().empty()) return in_data;
  const auto in_cache = user_cache_folder() / "data" / file;
  return is_file(in_cache) ? in_cache : in_data;
}

std::filesystem::path locate(const TaskFile& file, const std::filesystem::path& data_dir) {
  std::filesystem::path path;
  switch (file.root) {
    case TaskFile::Root::kTask:
      path = file.folder / file.file;
      break;
    case TaskFile::Root::kPrompts:
      path = file.folder.parent_path().parent_path() / "prompts" / file.file;
      break;
    case TaskFile::Root::kDataDir:
      path = data_path(file.file, data_dir);
      KVC_CHECK(!path.empty(), file.where, ": error: '", file.file,
                "' is in the data folder, and none was given: set KVC_DATA or the experiment's data_dir",
                how_to_get(file));
  }
  KVC_CHECK(is_file(path), file.where, ": error: there is no file '", in_one_line(path.string()), "'",
            how_to_get(file));
  return path;
}

}  // namespace kvc
