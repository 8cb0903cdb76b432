// A file that a task names, and what it is relative to.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "text/yaml_read.h"

namespace kvc {

struct TaskFile {
  enum class Root {
    kTask,     // the YAML file's folder
    kDataDir,  // the user's data folder
    kPrompts,  // prompts/ beside tasks/
  };
  Root root = Root::kTask;
  std::string file;
  std::string where;             // file:line:column of its name in the YAML
  std::filesystem::path folder;  // of the YAML file that names it
};

// The keys file and root of a map; the map may hold more.
TaskFile read_task_file(YamlMap& map, const std::vector<std::string>& roots);

// Where a file of the data folder is or would be: below `data_dir`, or where that lacks it (or is empty) below
// user_cache_folder()/data, if it is there. "": nowhere.
std::filesystem::path data_path(const std::string& file, const std::filesystem::path& data_dir);

// Its path; throws Error where the file is not there. `data_dir` may be empty where the task needs none.
std::filesystem::path locate(const TaskFile& file, const std::filesystem::path& data_dir);

}  // namespace kvc
