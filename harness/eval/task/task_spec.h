// A task as data: tasks/<suite>/<name>.yaml says where the questions are, how the prompt is built, and how answers
// count.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/data_spec.h"
#include "data/template.h"
#include "scoring/extractor.h"
#include "scoring/gold.h"
#include "task/choices.h"
#include "task/exemplars.h"
#include "task/likelihood.h"
#include "task/task_yaml.h"

namespace kvc {

// What a pipeline must make of a text; stands in the task file and runs as a test.
struct ExtractCase {
  std::string extractor, text;
  Gold gold;
  std::optional<std::string> answer;
  double score = 0;
  std::string where;
};

// What becomes of a prompt that is too long.
struct PromptLimit {
  enum class Side {
    kRefuse,  // the sample fails and says so
    kRight,   // the first tokens stay
    kLeft,    // the last tokens stay
    kMiddle,  // the first half and the last half of the limit stay, each decoded, joined as text
  };
  Side side = Side::kRefuse;
  std::optional<int64_t> max_tokens;  // the prompt's own, without a chat format; the model's context is a limit anyway
};

// Samples of one kind, whose scores are also kept apart, as "<extractor>/<label>".
struct BucketSpec {
  struct Bound {
    std::string label;
    int64_t below;
  };
  std::string by;             // a field that holds an integer, or digits
  std::vector<Bound> bounds;  // ascending; without any, each value is a bucket of its own, "<by> <value>"
  std::string rest;           // the label of values that are below none
};

struct TaskSpec {
  enum class Kind { kGenerate, kChoices, kLikelihood };
  std::string name;  // "<suite>/<name>", with a variant "<suite>/<name>/<variant>"
  std::string summary;
  std::filesystem::path yaml_file;
  Kind kind = Kind::kGenerate;
  DataSpec data;
  std::map<std::string, FieldSpec> fields;  // by template variable
  std::string gold_field;                   // "" of a task that reads a text
  std::optional<Regex> gold_pattern;        // its first group is the gold answer; without a pattern the whole field is
  bool has_gold_list = false;               // the field holds several answers, the best counts
  std::string classes_field;                // the names that a classification chooses from; "" when the task has none
  std::optional<ExemplarSpec> exemplars;    // the template variable {exemplars}
  Template prompt;                          // empty where it is in a file of the data
  std::optional<TaskFile> template_file;    // JSON; the template is the text at `template_pointer`
  std::string template_pointer;
  Template answer_prefix;  // how the answer begins: behind the prompt, of a turn behind the chat format
  std::string question;    // the question begins where this stands last in the template; "": it is not said
  bool is_chat_turn =
      false;  // prompt.chat: the prompt is a user's turn, put into the model's chat format if it has one
  PromptLimit limit;
  std::optional<ChoiceSpec> choices;         // of kind kChoices, which has none of what follows but buckets
  std::optional<LikelihoodSpec> likelihood;  // of kind kLikelihood, the same, whose max_new_tokens are those scored
  int64_t max_new_tokens = 0, min_new_tokens = 0;
  std::vector<std::string> stop;         // the generation is cut before the first of these
  std::vector<std::string> stop_tokens;  // the last token of each ends the generation, as the model's own do
  std::vector<Extractor> extractors;     // the first is the headline
  std::string metric;                    // of the headline's scorer
  std::vector<ExtractCase> extract_cases;
  std::vector<BucketSpec> buckets;
};

// Reads the YAML file alone, no data: a task can be checked on a machine without its data.
TaskSpec load_task(const TaskId& id);
inline TaskSpec load_task(const std::filesystem::path& yaml_file) { return load_task(TaskId{yaml_file, ""}); }

// Makes a task that reads texts read these whole files, each of its fields a file's text.
void read_instead(const std::vector<std::filesystem::path>& texts, TaskSpec& spec);

// The files of the data folder that the task reads.
std::vector<std::string> data_files(const TaskSpec& spec);

// A prompt's template; throws Error for a variable that the task does not have, and for a template without a field.
Template parse_prompt_template(const TaskSpec& spec, const std::string& text);

// All <suite>/<name>.yaml below `dir` with all their variants, files sorted.
std::vector<TaskId> find_tasks(const std::filesystem::path& dir);

// The task of that name; throws Error with the nearest and the known names.
TaskId find_task(const std::filesystem::path& dir, const std::string& name);

// Whether a sample's gold is more than one text: how it is stored, see gold.h.
inline bool has_structured_gold(const TaskSpec& spec) { return spec.has_gold_list || !spec.classes_field.empty(); }

// The part of `text` that the gold pattern takes, all of it without one; nothing when the pattern does not match.
std::optional<std::string> match_gold(const TaskSpec& spec, const std::string& text);

// What the extractor reads of a generation: all before the first of the task's stop strings, which another program may
// have generated past; all of it where the extractor reads stops. A view into `generation`.
std::string_view scored_text(const TaskSpec& spec, const Extractor& extractor, std::string_view generation);

// The extractor of that name, or nullptr.
const Extractor* find_extractor(const TaskSpec& spec, const std::string& name);

}  // namespace kvc
