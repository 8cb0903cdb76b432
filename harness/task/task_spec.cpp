#include "task/task_spec.h"

#include <algorithm>

#include "text/nearest.h"
#include "text/utf8.h"
#include "text/yaml_read.h"

namespace kvc {
namespace {

constexpr int64_t kVersion = 1;
constexpr size_t kMinCasesPerExtractor = 6;
const std::string kExemplars = "exemplars";

std::string task_name(const std::filesystem::path& yaml_file) {
  const auto absolute = std::filesystem::absolute(yaml_file);
  return concat(absolute.parent_path().filename().string(), "/", absolute.stem().string());
}

TaskFile read_file_name(const YamlValue& value, const std::vector<std::string>& roots) {
  auto map = value.map();
  const auto file = map.required("file");
  const auto root = map.required_choice("root", roots);
  map.reject_unknown();
  const std::filesystem::path path = file.string();
  const bool leaves = std::find(path.begin(), path.end(), "..") != path.end();
  if (path.empty() || path.is_absolute() || leaves) {
    file.fail(file.name(), " is ", file.found(), ", expected a path below root: ", root);
  }
  const auto kind = root == "task"       ? TaskFile::Root::kTask
                    : root == "data_dir" ? TaskFile::Root::kDataDir
                                         : TaskFile::Root::kPrompts;
  return {kind, file.string(), file.where()};
}

std::map<std::string, std::string> read_fields(const YamlValue& value) {
  std::map<std::string, std::string> fields;
  for (const auto& [variable, field] : value.map().entries()) {
    const auto parts = parse_template("{" + variable + "}");
    if (parts.size() != 1 || !parts[0].is_variable || variable == kExemplars) {
      field.fail("field name ", in_quotes(variable), ", expected letters, digits and _, and not '", kExemplars, "'");
    }
    fields[variable] = field.string();
  }
  return fields;
}

Template read_template(const YamlValue& value, const TaskSpec& spec) {
  std::vector<std::string> known;
  if (spec.exemplars) known.push_back(kExemplars);
  for (const auto& [variable, field] : spec.fields) known.push_back(variable);
  auto parts = parse_template(value.string());
  bool has_field = false;
  for (const auto& part : parts) {
    if (!part.is_variable) continue;
    if (std::find(known.begin(), known.end(), part.text) == known.end()) {
      value.fail(unknown_name("template variable", part.text, known));
    }
    has_field = has_field || part.text != kExemplars;
  }
  if (!has_field) value.fail(value.name(), " names no field: every prompt would be the same");
  return parts;
}

void read_gold(const YamlValue& value, TaskSpec& spec) {
  auto map = value.map();
  spec.gold_field = map.required_string("from");
  if (const auto pattern = map.optional("pattern")) {
    try {
      spec.gold_pattern.emplace(pattern->string());
    } catch (const Error& error) {
      pattern->fail(pattern->name(), ": ", error.what());
    }
    if (spec.gold_pattern->n_groups() == 0) pattern->fail(pattern->name(), " has no group (...) for the answer");
  }
  if (const auto list = map.optional("list")) spec.has_gold_list = list->boolean();
  spec.classes_field = map.optional_string("classes", "");
  map.reject_unknown();
}

void read_prompt(const YamlValue& value, TaskSpec& spec) {
  auto map = value.map();
  if (const auto file = map.optional(kExemplars))
    spec.exemplars = read_file_name(*file, {"task", "data_dir", "prompts"});
  spec.prompt = read_template(map.required("template"), spec);
  spec.is_chat_turn = map.optional_choice("chat", {"never", "turn"}, "never") == "turn";
  map.reject_unknown();
}

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
void read_scoring(YamlMap& map, TaskSpec& spec) {
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

void read_scoring_of(YamlMap& task, TaskSpec& spec) {
  const auto scoring = task.optional("scoring");
  if (!scoring) return read_scoring(task, spec);
  const auto file = read_file_name(*scoring, {"task"});
  const auto path = std::filesystem::absolute(spec.yaml_file).parent_path() / file.file;
  if (!std::filesystem::is_regular_file(path)) scoring->fail("there is no file '", file.file, "' beside the task file");
  auto map = load_yaml(path).map();
  map.required_integer("version", kVersion, kVersion);
  read_scoring(map, spec);
  map.reject_unknown();
}

std::vector<std::string> read_stop(YamlMap& map) {
  const auto value = map.optional("stop");
  std::vector<std::string> stop;
  if (!value) return stop;
  for (const auto& item : value->sequence()) {
    stop.push_back(item.string());
    if (stop.back().empty()) item.fail(item.name(), " is empty: every generation would be cut to nothing");
  }
  return stop;
}

}  // namespace

TaskSpec load_task(const std::filesystem::path& yaml_file) {
  auto map = load_yaml(yaml_file).map();
  map.required_integer("version", kVersion, kVersion);
  TaskSpec spec;
  spec.name = task_name(yaml_file);
  spec.yaml_file = yaml_file;
  spec.summary = map.required_string("summary");
  spec.data = read_file_name(map.required("data"), {"task", "data_dir"});
  spec.fields = read_fields(map.required("fields"));
  read_gold(map.required("gold"), spec);
  read_prompt(map.required("prompt"), spec);
  spec.max_new_tokens = map.required_integer("max_new_tokens", 1, 1'000'000);
  spec.stop = read_stop(map);
  read_scoring_of(map, spec);
  map.reject_unknown();
  return spec;
}

std::vector<std::filesystem::path> find_tasks(const std::filesystem::path& dir) {
  std::vector<std::filesystem::path> files;
  KVC_CHECK(std::filesystem::is_directory(dir), "there is no task folder '", dir.string(), "'");
  for (const auto& suite : std::filesystem::directory_iterator(dir)) {
    if (!suite.is_directory()) continue;
    for (const auto& file : std::filesystem::directory_iterator(suite)) {
      if (file.is_regular_file() && file.path().extension() == ".yaml") files.push_back(file.path());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::filesystem::path find_task(const std::filesystem::path& dir, const std::string& name) {
  std::vector<std::string> known;
  for (const auto& file : find_tasks(dir)) {
    known.push_back(task_name(file));
    if (known.back() == name) return file;
  }
  throw Error(unknown_name("task", name, known));
}

std::optional<std::string> match_gold(const TaskSpec& spec, const std::string& text) {
  return spec.gold_pattern ? spec.gold_pattern->find(text, 1, false) : text;
}

const Extractor* find_extractor(const TaskSpec& spec, const std::string& name) {
  for (const auto& extractor : spec.extractors) {
    if (extractor.name == name) return &extractor;
  }
  return nullptr;
}

}  // namespace kvc
