#include "task/task_groups.h"

#include <algorithm>

#include "task/format_version.h"
#include "task/task_spec.h"
#include "text/nearest.h"
#include "text/yaml_read.h"

namespace kvc {
namespace {

void add_member(const YamlValue& value, const std::vector<TaskGroup>& above, const std::vector<std::string>& tasks,
                TaskGroup& group) {
  const auto name = value.string();
  const auto is_it = [&](const TaskGroup& other) { return other.name == name; };
  if (std::any_of(above.begin(), above.end(), is_it)) {
    if (group.mean == TaskGroup::Mean::kSamples)
      value.fail(value.name(), " is a group: a mean over samples is of tasks");
    group.members.push_back({name, true});
    return;
  }
  const size_t n_before = group.members.size();
  for (const auto& task : tasks) {
    if (task == name || task.starts_with(name + "/")) group.members.push_back({task, false});
  }
  if (group.members.size() == n_before) value.fail(unknown_name("task or group", name, tasks));
}

TaskGroup read_group(const YamlValue& value, const std::vector<TaskGroup>& above,
                     const std::vector<std::string>& tasks) {
  auto map = value.map();
  TaskGroup group;
  const auto name = map.required("name");
  group.name = name.string();
  const auto is_same = [&](const TaskGroup& other) { return other.name == group.name; };
  if (std::any_of(above.begin(), above.end(), is_same)) name.fail("two groups named ", name.found());
  const auto mean = map.required_choice("mean", {"tasks", "samples"});
  group.mean = mean == "samples" ? TaskGroup::Mean::kSamples : TaskGroup::Mean::kTasks;
  for (const auto& item : map.required("of").sequence()) add_member(item, above, tasks, group);
  if (group.members.empty()) map.required("of").fail("a group without members");
  group.score = map.optional_string("score", "");
  group.is_perplexity = map.optional_choice("show", {"percent", "perplexity"}, "percent") == "perplexity";
  map.reject_unknown();
  return group;
}

}  // namespace

std::vector<TaskGroup> load_task_groups(const std::filesystem::path& yaml_file, const std::vector<std::string>& tasks) {
  auto map = load_yaml(yaml_file).map();
  map.required_integer("version", kFormatVersion, kFormatVersion);
  std::vector<TaskGroup> groups;
  for (const auto& item : map.required("groups").sequence()) groups.push_back(read_group(item, groups, tasks));
  map.reject_unknown();
  return groups;
}

std::vector<TaskGroup> task_groups(const std::filesystem::path& folder) {
  std::vector<std::string> tasks;
  for (const auto& id : find_tasks(folder)) tasks.push_back(id.name());
  return load_task_groups(folder / "groups.yaml", tasks);
}

}  // namespace kvc
