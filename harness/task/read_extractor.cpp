// Extractors as they stand in a task file.
#include <utility>

#include "task/extractor.h"
#include "text/nearest.h"

namespace kvc {
namespace {

using Kind = ExtractStep::Kind;

struct StepName {
  const char* name;
  Kind kind;
  bool takes_text;
};

constexpr StepName kSteps[] = {
    {"cut_before", Kind::kCutBefore, true},   {"before_first", Kind::kBeforeFirst, true},
    {"after_first", Kind::kAfterFirst, true}, {"after_last", Kind::kAfterLast, true},
    {"delete", Kind::kDelete, true},          {"drop_final", Kind::kDropFinal, true},
    {"strip", Kind::kStrip, false},           {"lower", Kind::kLower, false},
};

std::vector<std::string> step_names() {
  std::vector<std::string> names;
  for (const auto& step : kSteps) names.push_back(step.name);
  names.push_back("regex");
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

ExtractStep read_step(const YamlValue& value) {
  if (value.is_scalar()) {
    const auto name = value.string();
    const auto* known = find_step(name);
    if (known && !known->takes_text) return make_step(known->kind, "");
    if (known || name == "regex") value.fail("step '", name, "' needs a value: {", name, ": ...}");
    value.fail(unknown_name("step", name, step_names()));
  }
  auto entries = value.map().entries();
  if (entries.size() != 1) value.fail(value.name(), " has ", entries.size(), " keys, expected one step");
  const auto& [name, argument] = entries[0];
  if (name == "regex") return read_regex_step(argument);
  const auto* known = find_step(name);
  if (!known) value.fail(unknown_name("step", name, step_names()));
  if (!known->takes_text) argument.fail("step '", name, "' takes no value");
  const auto text = argument.string();
  if (text.empty()) argument.fail(argument.name(), " is empty, expected text to look for");
  return make_step(known->kind, text);
}

std::vector<ExtractStep> read_steps(const std::optional<YamlValue>& value) {
  std::vector<ExtractStep> steps;
  if (!value) return steps;
  for (const auto& item : value->sequence()) steps.push_back(read_step(item));
  return steps;
}

}  // namespace

Extractor read_extractor(const YamlValue& value) {
  auto map = value.map();
  Extractor extractor;
  extractor.name = map.required_string("name");
  extractor.steps = read_steps(map.required("steps"));
  extractor.gold_steps = read_steps(map.optional("gold_steps"));
  const auto compare = map.required_choice("compare", {"exact", "number"});
  extractor.compare = compare == "number" ? Extractor::Compare::kNumber : Extractor::Compare::kExact;
  map.reject_unknown();
  return extractor;
}

}  // namespace kvc
