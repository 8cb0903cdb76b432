// Extractors: named pipelines of steps from a generation to an answer. A step that finds nothing gives no answer.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "task/regex.h"
#include "text/yaml_read.h"

namespace kvc {

struct ExtractStep {
  enum class Kind {
    kCutBefore,    // text before the first `text`; all of it when there is none
    kBeforeFirst,  // text before the first `text`; no answer when there is none
    kAfterFirst,   // text after the first `text`; no answer when there is none
    kAfterLast,    // text after the last `text`; no answer when there is none
    kDelete,       // without any `text`
    kRegex,        // a group of the first or last match; no answer without a match
    kStrip,        // without Unicode whitespace at both ends
    kLower,        // Unicode lower case
    kDropFinal,    // without one `text` at the end, where there is one
  };
  Kind kind = Kind::kStrip;
  std::string text;
  std::optional<Regex> regex;
  int group = 0;
  bool last_match = false;
};

struct Extractor {
  enum class Compare { kExact, kNumber };  // kNumber: both sides as doubles; what is no number is wrong
  std::string name;
  std::vector<ExtractStep> steps;
  std::vector<ExtractStep> gold_steps;  // applied to the gold answer before comparing
  Compare compare = Compare::kExact;
};

Extractor read_extractor(const YamlValue& value);

// The answer in a generation, or nothing.
std::optional<std::string> extract_answer(const Extractor& extractor, std::string_view generation);
// The gold answer as it is compared, or nothing when the gold steps or the number's syntax find none: a data error.
std::optional<std::string> gold_answer(const Extractor& extractor, std::string_view gold);
// 1 when the answer equals the gold, 0 otherwise and for no answer.
double score_answer(const Extractor& extractor, const std::optional<std::string>& answer, std::string_view gold);

}  // namespace kvc
