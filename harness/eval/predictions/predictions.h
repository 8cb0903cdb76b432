// Files of what a model generated, ours or another's, to be scored without the model. JSON Lines in one of three forms,
// known by the first line's fields:
//   LongBench   pred, answers, all_classes
//   lm-eval     resps, target, doc, filter: one line per filter and response. Of lines that differ in the filter alone
//               the first is read; a line that repeats document, response and filter is a sample of another run. Of a
//               task that chooses, the log-likelihoods and texts of its choices
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

struct PredictionFile {
  std::vector<Prediction> samples;  // in file order
  int64_t n_other_filters = 0;      // lines that were not read: other filters of responses that were
};

// Tells the user how many responses are null. Throws Error file:line for a missing field, a wrong type, a line that is
// no JSON, an empty file. Where classes are in the lines, those of the last line serve all in LongBench's form, as its
// script has it.
PredictionFile read_predictions(const TaskSpec& spec, const std::filesystem::path& file);

}  // namespace kvc
