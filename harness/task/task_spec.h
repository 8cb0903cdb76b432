// A task as data: tasks/<suite>/<name>.yaml says where the questions are, how the prompt is built, and how answers
// count.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "task/extractor.h"
#include "task/template.h"

namespace kvc {

// A file that a task names, and what it is relative to.
struct TaskFile {
  enum class Root {
    kTask,     // the YAML file's folder
    kDataDir,  // the user's data folder
    kPrompts,  // prompts/ beside tasks/
  };
  Root root = Root::kTask;
  std::string file;
  std::string where;  // file:line:column of its name in the YAML
};

// What a pipeline must make of a text; stands in the task file and runs as a test.
struct ExtractCase {
  std::string extractor, text, gold;
  std::optional<std::string> answer;
  bool correct = false;
  std::string where;
};

struct TaskSpec {
  std::string name;  // "<suite>/<name>"
  std::string summary;
  std::filesystem::path yaml_file;
  TaskFile data;
  std::map<std::string, std::string> fields;  // template variable -> JSON field
  std::string gold_field;
  std::optional<Regex> gold_pattern;  // its first group is the gold answer; without a pattern the whole field is
  std::optional<TaskFile> exemplars;  // the template variable {exemplars}
  Template prompt;
  bool is_chat_turn =
      false;  // prompt.chat: the prompt is a user's turn, put into the model's chat format if it has one
  int64_t max_new_tokens = 0;
  std::vector<std::string> stop;      // the generation is cut before the first of these
  std::vector<Extractor> extractors;  // the first is the headline
  std::string metric;                 // accuracy
  std::vector<ExtractCase> extract_cases;
};

// Reads the YAML file alone, no data: a task can be checked on a machine without its data.
TaskSpec load_task(const std::filesystem::path& yaml_file);

// All <suite>/<name>.yaml below `dir`, sorted.
std::vector<std::filesystem::path> find_tasks(const std::filesystem::path& dir);

// <dir>/<suite>/<name>.yaml of a task's name; throws Error with the nearest and the known names.
std::filesystem::path find_task(const std::filesystem::path& dir, const std::string& name);

// The extractor of that name, or nullptr.
const Extractor* find_extractor(const TaskSpec& spec, const std::string& name);

}  // namespace kvc
