#include "task/read_scoring.h"

#include <algorithm>

#include "task/format_version.h"
#include "text/files.h"
#include "text/utf8.h"

namespace kvc {
namespace {

constexpr size_t kMinCasesPerExtractor = 6;

void read_extractors(const YamlValue& value, TaskSpec& spec) {
  for (const auto& item : value.sequence()) {
    auto extractor = read_extractor(item);
    if (find_extractor(spec, extractor.name)) item.fail("two extractors named ", in_quotes(extractor.name));
    spec.extractors.push_back(std::move(extractor));
  }
  if (spec.extractors.empty()) value.fail("extractors is empty, expected at least one");
}

std::vector<std::string> strings_of(const YamlValue& value) {
  if (value.is_sequence()) return value.strings();
  return {value.string()};
}

ExtractCase read_case(const YamlValue& value, const std::vector<std::string>& extractors) {
  auto map = value.map();
  ExtractCase result;
  result.extractor = map.required_choice("extractor", extractors);
  result.text = map.required_string("text");
  result.gold.answers = strings_of(map.required("gold"));
  result.gold.classes = map.optional_strings("classes");
  const auto answer = map.required("answer");
  if (!answer.is_null()) result.answer = answer.string();
  if (const auto score = map.optional("score")) {
    result.score = score->real(0, 1);
  } else {
    result.score = map.required("correct").boolean() ? 1 : 0;
  }
  result.where = value.where();
  map.reject_unknown();
  return result;
}

void read_extract_cases(const YamlValue& value, TaskSpec& spec) {
  std::vector<std::string> names;
  for (const auto& extractor : spec.extractors) names.push_back(extractor.name);
  for (const auto& item : value.sequence()) spec.extract_cases.push_back(read_case(item, names));
  for (const auto& name : names) {
    const auto n = static_cast<size_t>(std::count_if(spec.extract_cases.begin(), spec.extract_cases.end(),
                                                     [&](const auto& c) { return c.extractor == name; }));
    if (n < kMinCasesPerExtractor) {
      value.fail("extractor '", name, "' has ", n, " extract cases, expected at least ", kMinCasesPerExtractor);
    }
  }
}

void check_scorers(const YamlValue& extractors, const TaskSpec& spec) {
  for (const auto& extractor : spec.extractors) {
    if (!extractor.scorer->needs_classes || !spec.classes_field.empty()) continue;
    extractors.fail("extractor '", extractor.name, "' compares by '", extractor.scorer->name,
                    "', which needs gold.classes, the field of the names to choose from");
  }
}

// metric, extractors and extract_cases: in the task file, or in one that several tasks name under `scoring`.
void read_scoring_from(YamlMap& map, TaskSpec& spec) {
  const auto extractors = map.required("extractors");
  read_extractors(extractors, spec);
  check_scorers(extractors, spec);
  const auto metric = map.required("metric");
  spec.metric = metric.choice(metric_names());
  const std::string headline = spec.extractors[0].scorer->metric;
  if (spec.metric != headline) {
    metric.fail("metric is '", spec.metric, "', but the first extractor compares by '", spec.extractors[0].scorer->name,
                "', which gives '", headline, "'");
  }
  read_extract_cases(map.required("extract_cases"), spec);
}

}  // namespace

void read_scoring(YamlMap& task, TaskSpec& spec) {
  const auto scoring = task.optional("scoring");
  if (!scoring) return read_scoring_from(task, spec);
  auto named = scoring->map();
  const auto file = read_task_file(named, {"task"});
  named.reject_unknown();
  const auto path = file.folder / file.file;
  if (!is_file(path)) scoring->fail("there is no file '", file.file, "' in the task file's folder");
  auto map = load_yaml(path).map();
  map.required_integer("version", kFormatVersion, kFormatVersion);
  read_scoring_from(map, spec);
  map.reject_unknown();
}

}  // namespace kvc
