#include "task/task_inventory.h"

#include <algorithm>
#include <set>

#include "data/task_file.h"
#include "kvc/check.h"
#include "text/files.h"

namespace kvc {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> missing_files(const TaskSpec& spec, const fs::path& data_dir) {
  std::vector<std::string> missing;
  for (const auto& file : data_files(spec)) {
    if (!is_file(data_path(file, data_dir))) missing.push_back(file);
  }
  return missing;
}

}  // namespace

size_t TaskInventory::n_that_run() const {
  return static_cast<size_t>(
      std::count_if(tasks.begin(), tasks.end(), [](const ListedTask& task) { return task.can_run(); }));
}

size_t TaskInventory::n_suites() const {
  std::set<std::string> suites;
  for (const auto& task : tasks) suites.insert(task.suite());
  return suites.size();
}

TaskInventory take_inventory(const std::vector<TaskId>& ids, const fs::path& data_dir) {
  TaskInventory inventory;
  for (const auto& id : ids) {
    try {
      auto spec = load_task(id);
      auto missing = missing_files(spec, data_dir);
      inventory.tasks.push_back({std::move(spec), std::move(missing)});
    } catch (const Error& e) {
      inventory.broken.push_back(e.what());
    }
  }
  return inventory;
}

}  // namespace kvc
