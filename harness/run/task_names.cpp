#include "run/task_names.h"

#include <cstdlib>

#include "kvc/check.h"
#include "text/nearest.h"

namespace kvc {

std::vector<TaskId> tasks_of(const std::string& name, const Paths& paths) {
  const auto folder = paths.root / "tasks";
  std::vector<TaskId> tasks;
  if (name.ends_with(".yaml")) {
    const auto file = below_root(paths, name);
    for (const auto& variant : task_variants(file)) tasks.push_back({file, variant});
    return tasks;
  }
  for (const auto& id : find_tasks(folder)) {
    if (id.name().starts_with(name + "/")) tasks.push_back(id);
  }
  return tasks.empty() ? std::vector{find_task(folder, name)} : tasks;
}

TaskId task_by_name(const std::string& name, const Paths& paths) {
  const auto tasks = tasks_of(name, paths);
  std::vector<std::string> names;
  for (const auto& id : tasks) names.push_back(id.name());
  KVC_CHECK(tasks.size() == 1, "'", name, "' names ", tasks.size(), " tasks, expected one of ", join(names));
  return tasks.front();
}

std::string data_folder(const std::string& given) {
  const char* from_environment = std::getenv("KVC_DATA");
  return !given.empty() ? given : from_environment ? from_environment : "";
}

}  // namespace kvc
