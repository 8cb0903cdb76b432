// A task's YAML: one variant of a file that stands for several tasks, over the task that it says it is like.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "text/yaml_read.h"

namespace kvc {

// One task: a file, or one variant of a file with `each`.
struct TaskId {
  std::filesystem::path yaml_file;
  std::string variant;       // "" where the file is one task
  std::string name() const;  // "<suite>/<file>" or "<suite>/<file>/<variant>"
};

// The variants that a file's `each` names, in order; {""} where it has none.
std::vector<std::string> task_variants(const std::filesystem::path& yaml_file);

// The top-level keys of a task: its own, and beneath them those of the task named by `like`. The variant's values stand
// in place of ${variant} and of ${name} for each name that `each` gives it. Throws Error for a variant that the file
// does not have, for a ${name} without value, and for tasks that are like each other.
YamlMap load_task_yaml(const TaskId& id);

}  // namespace kvc
