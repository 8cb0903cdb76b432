// A task's data read from disk, and the prompts made from it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "task/task_spec.h"

namespace kvc {

struct Sample {
  int64_t id = 0;            // 0, 1, ... in file order
  std::vector<int64_t> ids;  // of a task that reads a text, once it is cut into windows: a window's tokens
  std::map<std::string, std::string> fields;
  std::string gold;                  // as gold_text() writes it
  std::vector<std::string> choices;  // of a task that chooses: continuations
  int64_t gold_choice = 0;
  std::vector<std::string> buckets;  // labels
};

struct Dataset {
  std::vector<Sample> samples;
  int64_t n_samples = 0;                  // of the whole data; `samples` may be the first of them
  Template prompt;                        // the task's, wherever it stands
  std::optional<TemplatePlace> question;  // in it, of a task that says where its question begins
  std::string dataset_sha256;
  std::string exemplars;         // "" when the task has none
  std::string exemplars_sha256;  // "" when the task has none
};

struct Prompt {
  struct Part {
    std::string name;  // the template variable, or "" for the template's own text
    std::string text;
  };
  std::string text;
  std::string answer_prefix;             // what the answer begins with, behind `text` in its chat format
  std::string shared_prefix;             // the part of `text` before the first field: the same for all samples
  std::vector<Part> parts;               // in order; joined they are `text` and `answer_prefix`
  std::optional<size_t> question_begin;  // bytes of `text` before the question; nothing where the task says none
};

// What prompts that are made to a length need to know of a model.
struct PromptGauge {
  std::function<int64_t(const std::string& text)> n_tokens;      // absent: no model is known
  std::function<int64_t(const Prompt& prompt)> n_prompt_tokens;  // as the model gets it
  int64_t context = 0;                                           // tokens that the model holds
  std::optional<int64_t> max_prompt_tokens;                      // the experiment's own limit
};

// Throws Error file:line:column for a missing file, field or gold, and where questions are made to a length in tokens
// that the gauge does not allow. `data_dir` may be empty when the task needs none. n_made: how many questions are made,
// where they are: samples do not depend on those behind them.
Dataset load_dataset(const TaskSpec& spec, const std::filesystem::path& data_dir, const PromptGauge& gauge = {},
                     const std::optional<int64_t>& n_made = std::nullopt);

// The data's samples; of questions that are made none is.
int64_t count_samples(const TaskSpec& spec, const std::filesystem::path& data_dir);

// Leaves n samples, in the file's order. Of a task with buckets each combination of them comes as often as any other,
// as far as n allows, and each bucket, too: lengths and depths alike; otherwise they are the file's first. The same for
// everyone, and those of n are among those of n + 1.
void keep_samples(Dataset& dataset, size_t n);

Prompt render_prompt(const TaskSpec& spec, const Dataset& dataset, const Sample& sample);

// The same with every field's text replaced: what a model says without the question.
Prompt render_content_free(const TaskSpec& spec, const Dataset& dataset, const std::string& text);

// Canonical JSON of all that can change a prompt, a gold answer, a generation or a sample's buckets: for hashing. Data
// enters by content, not by place; the summary and the scoring stay out.
std::string spec_json(const TaskSpec& spec, const Dataset& dataset);

// Canonical JSON of how generations are scored: metric, extractors, the names of choices' scores. No key in it is null,
// so that as a merge patch over spec_json it gives the whole task.
std::string scoring_json(const TaskSpec& spec);

}  // namespace kvc
