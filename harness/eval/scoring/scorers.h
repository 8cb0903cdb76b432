// Scorers: pure functions from an answer and a gold answer to a score between 0 and 1, named by what they measure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kvc {

class ChineseWords;

struct ScoreInput {
  std::string_view answer, gold;
  const std::vector<std::string>& classes;  // the names that a classification chooses from
  const ChineseWords* words = nullptr;      // of scorers that need them
};

struct Scorer {
  const char* name;
  const char* metric;  // what tables call it: "accuracy" where an answer is right or wrong, else the name
  double (*score)(const ScoreInput& input);
  bool needs_classes = false;
  bool needs_words = false;
  bool (*accepts_gold)(std::string_view gold) = nullptr;  // absent: any text can be a gold answer
  bool wants_all = false;                                 // of several gold answers the mean counts, not the best
  int revision = 1;  // of its rules: stored answers of an earlier one are scored again
};

const Scorer* find_scorer(std::string_view name);  // nullptr when there is none
std::vector<std::string> scorer_names();
std::vector<std::string> metric_names();

}  // namespace kvc
