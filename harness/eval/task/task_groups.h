// Groups of tasks, whose scores are shown together: tasks/groups.yaml.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace kvc {

struct TaskGroup {
  enum class Mean {
    kTasks,    // the mean of its members' scores, each counting once
    kSamples,  // the mean over all samples of all its tasks
  };
  struct Member {
    std::string name;  // of a task, or of a group that stands before this one
    bool is_group = false;
  };
  std::string name;
  Mean mean = Mean::kTasks;
  std::vector<Member> members;
  std::string score;           // an extractor's name, or "" for each task's headline
  bool is_perplexity = false;  // shown as exp(-mean); the score is a log-likelihood
};

// The groups of a folder of tasks: its groups.yaml, over all that are below it.
std::vector<TaskGroup> task_groups(const std::filesystem::path& folder);

// `tasks` are the names that members may have: a member is a task, a group above, or what several tasks' names begin
// with, up to a slash. Throws Error for anything else.
std::vector<TaskGroup> load_task_groups(const std::filesystem::path& yaml_file, const std::vector<std::string>& tasks);

}  // namespace kvc
