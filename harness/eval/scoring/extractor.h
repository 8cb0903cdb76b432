// Extractors: named pipelines of steps from a generation to an answer, and the scorer that compares it with the gold
// answer. A step that finds nothing gives no answer.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "scoring/regex.h"
#include "scoring/scorers.h"
#include "text/yaml_read.h"

namespace kvc {

struct ExtractStep {
  enum class Kind {
    kCutBefore,         // text before the first `text`; all of it when there is none
    kBeforeFirst,       // text before the first `text`; no answer when there is none
    kAfterFirst,        // text after the first `text`; no answer when there is none
    kAfterLast,         // text after the last `text`; no answer when there is none
    kDelete,            // without any `text`
    kRegex,             // a group of the first or last match; no answer without a match
    kReplace,           // with `text` in place of each match; $1 in it is a group
    kStrip,             // without Unicode whitespace at both ends
    kLower,             // Unicode lower case
    kDropFinal,         // without one `text` at the end, where there is one
    kDropLeading,       // without any `text` at the start, however often it stands there
    kDropTrailing,      // without any `text` at the end, however often it stands there
    kFirstLineWithout,  // the first line that holds none of `texts`; "" when all do
    kFirstListed,       // the first of `texts` that occurs; no answer when none does
    kWithoutSpans,      // without what stands from the first of `texts` to the second: see without_spans()
    kFirstBoxed,        // LaTeX: what is in the first \boxed{...}; no answer without one
    kLastBoxed,         // the same of the last
    kAnyOf,             // what the first of `alternatives` finds that finds anything; no answer when none does
  };
  Kind kind = Kind::kStrip;
  std::string text;
  std::vector<std::string> texts;
  std::vector<std::vector<ExtractStep>> alternatives;
  std::optional<Regex> regex;
  int group = 0;
  bool last_match = false;
};

struct Extractor {
  std::string name;
  std::vector<ExtractStep> steps;
  std::vector<ExtractStep> gold_steps;  // applied to the gold answer before comparing
  const Scorer* scorer = nullptr;
  bool reads_stops = false;  // of a text that holds the task's stop strings it reads all: it cuts there itself
};

Extractor read_extractor(const YamlValue& value);

// The name of a step in task files.
const char* step_name(ExtractStep::Kind kind);

// The answer in a generation, or nothing. Throws Error when a pattern runs into its match limit.
std::optional<std::string> extract_answer(const Extractor& extractor, std::string_view generation);
// The gold answer as it is compared, or nothing when the gold steps find none or the scorer cannot read it: a data
// error.
std::optional<std::string> gold_answer(const Extractor& extractor, std::string_view gold);

}  // namespace kvc
