// Which tasks there are, and which of them can run here: those whose files are in the data folder.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "task/task_spec.h"

namespace kvc {

struct ListedTask {
  TaskSpec spec;
  std::vector<std::string> missing;  // files of the data folder that it reads and that are not there

  bool can_run() const { return missing.empty(); }
  std::string suite() const { return spec.name.substr(0, spec.name.find('/')); }
};

struct TaskInventory {
  std::vector<ListedTask> tasks;    // in order of names' files
  std::vector<std::string> broken;  // what is wrong with a task file, in one line each

  size_t n_that_run() const;
  size_t n_suites() const;
};

// Looks for files and reads no data. data_dir "": no task that needs data can run.
TaskInventory take_inventory(const std::vector<TaskId>& ids, const std::filesystem::path& data_dir);

}  // namespace kvc
