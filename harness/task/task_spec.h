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
#include "task/gold.h"
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
  std::string extractor, text;
  Gold gold;
  std::optional<std::string> answer;
  double score = 0;
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
  bool has_gold_list = false;         // the field holds several answers, the best counts
  std::string classes_field;          // the names that a classification chooses from; "" when the task has none
  std::optional<TaskFile> exemplars;  // the template variable {exemplars}
  Template prompt;
  bool is_chat_turn =
      false;  // prompt.chat: the prompt is a user's turn, put into the model's chat format if it has one
  int64_t max_new_tokens = 0;
  std::vector<std::string> stop;      // the generation is cut before the first of these
  std::vector<Extractor> extractors;  // the first is the headline
  std::string metric;                 // of the headline's scorer
  std::vector<ExtractCase> extract_cases;
};

// Reads the YAML file alone, no data: a task can be checked on a machine without its data.
TaskSpec load_task(const std::filesystem::path& yaml_file);

// All <suite>/<name>.yaml below `dir`, sorted.
std::vector<std::filesystem::path> find_tasks(const std::filesystem::path& dir);

// <dir>/<suite>/<name>.yaml of a task's name; throws Error with the nearest and the known names.
std::filesystem::path find_task(const std::filesystem::path& dir, const std::string& name);

// Whether a sample's gold is more than one text: how it is stored, see gold.h.
inline bool has_structured_gold(const TaskSpec& spec) { return spec.has_gold_list || !spec.classes_field.empty(); }

// The part of `text` that the gold pattern takes, all of it without one; nothing when the pattern does not match.
std::optional<std::string> match_gold(const TaskSpec& spec, const std::string& text);

// The extractor of that name, or nullptr.
const Extractor* find_extractor(const TaskSpec& spec, const std::string& name);

}  // namespace kvc
