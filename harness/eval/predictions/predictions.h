// Files of what a model generated, ours or another's, to be scored without the model. JSON Lines in one of three forms,
// known by the first line's fields:
//   LongBench   pred, answers, all_classes
//   lm-eval     resps, target, doc, filter: one line a filter and question, each question read once; of a task that
//               chooses, the log-likelihoods and texts of its choices
//   plain       generation, gold (a text or a list of texts), classes
// Golds may be numbers or booleans, which are compared as Python's str() prints them. A response may be null.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "task/task_spec.h"

namespace kvc {

struct Prediction {
  int64_t line = 0;
  std::string generation;
  bool is_null = false;  // the file has no response, or a likelihood that is no number: its scores are 0
  Gold gold;
  // Of a task that chooses, instead of these:
  std::vector<ChoiceLikelihood> choices;  // without numbers of tokens, which no file says
  int64_t gold_choice = 0;
  std::map<std::string, double> stated;  // what the line itself says of its scores, by our names
};

// In file order; how many are null is told the user. Throws Error file:line for a missing field, a wrong type, a line
// that is no JSON, an empty file. Where classes stand in the lines, those of the last line serve all in LongBench's
// form, as its script has it.
std::vector<Prediction> read_predictions(const TaskSpec& spec, const std::filesystem::path& file);

}  // namespace kvc
