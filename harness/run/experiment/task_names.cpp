#include "experiment/task_names.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "kvc/check.h"
#include "text/nearest.h"
#include "text/text_file.h"

namespace kvc {

namespace {

// Whether tasks whose names are `name`, or begin with it, may stand in this file: only such files are read.
bool may_hold(const std::filesystem::path& file, const std::string& name) {
  const auto stem = TaskId{file, ""}.name();
  return file.extension() == ".yaml" && ((stem + "/").starts_with(name + "/") || (name + "/").starts_with(stem + "/"));
}

std::vector<std::filesystem::path> files_for(const std::string& name, const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  const auto suite = folder / name.substr(0, name.find('/'));
  if (name.starts_with(".") || !std::filesystem::is_directory(suite)) return files;
  for (const auto& file : std::filesystem::directory_iterator(suite)) {
    if (file.is_regular_file() && may_hold(file.path(), name)) files.push_back(file.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<TaskId> tasks_like(const std::string& pattern, const std::filesystem::path& folder) {
  std::vector<TaskId> tasks;
  std::vector<std::string> known;
  for (const auto& id : find_tasks(folder)) {
    const auto name = id.name();
    if (is_named_by(name, pattern)) tasks.push_back(id);
    known.push_back(name);
  }
  if (tasks.empty()) throw Error(unknown_name("task", pattern, known));
  return tasks;
}

// A name a line; blank lines and what stands behind # do not count.
std::vector<TaskId> tasks_listed(const std::filesystem::path& list, const Paths& paths) {
  std::vector<TaskId> tasks;
  std::istringstream lines(read_text(list));
  int64_t n_lines = 0;
  for (std::string line; std::getline(lines, line);) {
    ++n_lines;
    std::istringstream words(line.substr(0, line.find('#')));
    std::string name, more;
    if (!(words >> name)) continue;
    const auto where = concat(list.string(), ":", n_lines, ": error: ");
    KVC_CHECK(!(words >> more), where, "'", more, "' after '", name, "', expected one task per line");
    KVC_CHECK(!name.ends_with(".txt"), where, "'", name, "' is a list of tasks, expected tasks");
    try {
      for (auto& id : tasks_of(name, paths)) tasks.push_back(std::move(id));
    } catch (const Error& e) {
      throw Error(where + e.what());
    }
  }
  KVC_CHECK(!tasks.empty(), list.string(), ": no task, expected one per line");
  return tasks;
}

}  // namespace

std::vector<TaskId> tasks_of(const std::string& name, const Paths& paths) {
  const auto folder = paths.root / "tasks";
  std::vector<TaskId> tasks;
  if (name.ends_with(".yaml")) {
    const auto file = below_root(paths, name);
    for (const auto& variant : task_variants(file)) tasks.push_back({file, variant});
    return tasks;
  }
  if (name.ends_with(".txt")) return tasks_listed(below_root(paths, name), paths);
  if (name.find_first_of("*?[") != std::string::npos) return tasks_like(name, folder);
  for (const auto& file : files_for(name, folder)) {
    for (const auto& variant : task_variants(file)) {
      const TaskId id{file, variant};
      if (is_named_by(id.name(), name)) tasks.push_back(id);
    }
  }
  return tasks.empty() ? std::vector{find_task(folder, name)} : tasks;
}

TaskId task_by_name(const std::string& name, const Paths& paths) {
  const auto tasks = tasks_of(name, paths);
  std::vector<std::string> names;
  for (const auto& id : tasks) names.push_back(id.name());
  KVC_CHECK(tasks.size() == 1, "'", name, "' names ", tasks.size(), " tasks, expected one of ", some_of(names));
  return tasks.front();
}

std::string data_folder(const std::string& given) {
  const char* from_environment = std::getenv("KVC_DATA");
  return !given.empty() ? given : from_environment ? from_environment : "";
}

}  // namespace kvc
