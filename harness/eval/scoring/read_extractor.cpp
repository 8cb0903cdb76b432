// Extractors as they stand in a task file.
#include <algorithm>
#include <utility>

#include "scoring/extractor.h"
#include "text/nearest.h"

namespace kvc {
namespace {

using Kind = ExtractStep::Kind;

enum class Takes { kNothing, kText, kTexts, kPattern, kReplacement, kPipelines };

struct StepName {
  const char* name;
  Kind kind;
  Takes takes;
};

constexpr StepName kSteps[] = {
    {"cut_before", Kind::kCutBefore, Takes::kText},
    {"before_first", Kind::kBeforeFirst, Takes::kText},
    {"after_first", Kind::kAfterFirst, Takes::kText},
    {"after_last", Kind::kAfterLast, Takes::kText},
    {"delete", Kind::kDelete, Takes::kText},
    {"drop_final", Kind::kDropFinal, Takes::kText},
    {"drop_leading", Kind::kDropLeading, Takes::kText},
    {"drop_trailing", Kind::kDropTrailing, Takes::kText},
    {"strip", Kind::kStrip, Takes::kNothing},
    {"lower", Kind::kLower, Takes::kNothing},
    {"first_line_without", Kind::kFirstLineWithout, Takes::kTexts},
    {"first_listed", Kind::kFirstListed, Takes::kTexts},
    {"regex", Kind::kRegex, Takes::kPattern},
    {"replace", Kind::kReplace, Takes::kReplacement},
    {"without_spans", Kind::kWithoutSpans, Takes::kTexts},
    {"first_boxed", Kind::kFirstBoxed, Takes::kNothing},
    {"last_boxed", Kind::kLastBoxed, Takes::kNothing},
    {"any_of", Kind::kAnyOf, Takes::kPipelines},
};

std::vector<std::string> step_names() {
  std::vector<std::string> names;
  for (const auto& step : kSteps) names.push_back(step.name);
  return names;
}

const StepName* find_step(const std::string& name) {
  for (const auto& step : kSteps) {
    if (name == step.name) return &step;
  }
  return nullptr;
}

ExtractStep make_step(Kind kind, const std::string& text) {
  ExtractStep step;
  step.kind = kind;
  step.text = text;
  return step;
}

Regex read_regex(const YamlValue& value) {
  try {
    return Regex(value.string());
  } catch (const Error& error) {
    value.fail(value.name(), ": ", error.what());
  }
}

// regex: 'pattern', or regex: {pattern, group, which}
ExtractStep read_regex_step(const YamlValue& value) {
  auto step = make_step(Kind::kRegex, "");
  if (value.is_scalar()) {
    step.regex = read_regex(value);
    return step;
  }
  auto map = value.map();
  step.regex = read_regex(map.required("pattern"));
  step.group = static_cast<int>(map.optional_integer("group", 0, step.regex->n_groups(), 0));
  step.last_match = map.optional_choice("which", {"first", "last"}, "first") == "last";
  map.reject_unknown();
  return step;
}

// replace: {pattern, by}
ExtractStep read_replacement(const YamlValue& value) {
  auto map = value.map();
  auto step = make_step(Kind::kReplace, "");
  step.regex = read_regex(map.required("pattern"));
  const auto by = map.required("by");
  step.text = by.string();
  for (size_t at = step.text.find('$'); at != std::string::npos; at = step.text.find('$', at + 2)) {
    const char next = at + 1 < step.text.size() ? step.text[at + 1] : ' ';
    const bool is_group = next >= '0' && next <= '9' && next - '0' <= step.regex->n_groups();
    if (next != '$' && !is_group) {
      by.fail(by.name(), " is ", by.found(), ", expected $$, or $0 to $", std::min(9, step.regex->n_groups()),
              ", after each $");
    }
  }
  map.reject_unknown();
  return step;
}

std::string text_to_find(const YamlValue& value) {
  auto text = value.string();
  if (text.empty()) value.fail(value.name(), " is empty, expected text to look for");
  return text;
}

std::vector<ExtractStep> read_steps(const YamlValue& value);

// The argument of a step that takes several texts or pipelines.
std::vector<YamlValue> items_of(const YamlValue& value) {
  auto items = value.sequence();
  if (items.empty()) value.fail(value.name(), " is empty, expected at least one");
  return items;
}

ExtractStep read_argument(const StepName& step, const YamlValue& argument) {
  ExtractStep result;
  switch (step.takes) {
    case Takes::kNothing:
      argument.fail("step '", step.name, "' takes no value");
    case Takes::kText:
      return make_step(step.kind, text_to_find(argument));
    case Takes::kPattern:
      return read_regex_step(argument);
    case Takes::kReplacement:
      return read_replacement(argument);
    case Takes::kTexts:
      for (const auto& item : items_of(argument)) result.texts.push_back(text_to_find(item));
      if (step.kind == Kind::kWithoutSpans && result.texts.size() != 2) {
        argument.fail(argument.name(), " has ", result.texts.size(),
                      " texts, expected two: the opening and the closing one");
      }
      break;
    case Takes::kPipelines:
      for (const auto& item : items_of(argument)) result.alternatives.push_back(read_steps(item));
      break;
  }
  result.kind = step.kind;
  return result;
}

ExtractStep read_step(const YamlValue& value) {
  if (value.is_scalar()) {
    const auto name = value.string();
    const auto* known = find_step(name);
    if (!known) value.fail(unknown_name("step", name, step_names()));
    if (known->takes != Takes::kNothing) value.fail("step '", name, "' needs a value: {", name, ": ...}");
    return make_step(known->kind, "");
  }
  auto entries = value.map().entries();
  if (entries.size() != 1) value.fail(value.name(), " has ", entries.size(), " keys, expected one step");
  const auto& [name, argument] = entries[0];
  const auto* known = find_step(name);
  if (!known) value.fail(unknown_name("step", name, step_names()));
  return read_argument(*known, argument);
}

std::vector<ExtractStep> read_steps(const YamlValue& value) {
  std::vector<ExtractStep> steps;
  for (const auto& item : value.sequence()) steps.push_back(read_step(item));
  return steps;
}

}  // namespace

const char* step_name(Kind kind) {
  for (const auto& step : kSteps) {
    if (step.kind == kind) return step.name;
  }
  return "";
}

Extractor read_extractor(const YamlValue& value) {
  auto map = value.map();
  Extractor extractor;
  extractor.name = map.required_string("name");
  extractor.steps = read_steps(map.required("steps"));
  if (const auto steps = map.optional("gold_steps")) extractor.gold_steps = read_steps(*steps);
  extractor.reads_stops = map.optional_boolean("reads_stops", false);
  extractor.scorer = find_scorer(map.required_choice("compare", scorer_names()));
  map.reject_unknown();
  return extractor;
}

}  // namespace kvc
