#include "task/task_spec.h"

#include <algorithm>

#include "task/format_version.h"
#include "task/read_scoring.h"
#include "text/nearest.h"
#include "text/utf8.h"
#include "text/yaml_read.h"

namespace kvc {
namespace {

const std::string kExemplars = "exemplars";

// A template's text, or {file, root, pointer} of one that is the data's.
void read_template(const YamlValue& value, TaskSpec& spec) {
  if (value.is_map()) {
    auto map = value.map();
    spec.template_file = read_task_file(map, {"task", "data_dir"});
    spec.template_pointer = map.required_string("pointer");
    map.reject_unknown();
    return;
  }
  try {
    spec.prompt = parse_prompt_template(spec, value.string());
  } catch (const Error& error) {
    value.fail(error.what());
  }
}

std::map<std::string, FieldSpec> read_fields(const YamlValue& value) {
  std::map<std::string, FieldSpec> fields;
  for (const auto& [variable, field] : value.map().entries()) {
    const auto parts = parse_template("{" + variable + "}");
    if (parts.size() != 1 || !parts[0].is_variable || variable == kExemplars) {
      field.fail("field name ", in_quotes(variable), ", expected letters, digits and _, and not '", kExemplars, "'");
    }
    fields[variable] = read_field_spec(field);
  }
  return fields;
}

void read_gold(const YamlValue& value, TaskSpec& spec) {
  auto map = value.map();
  spec.gold_field = map.required_string("from");
  spec.gold_pattern = read_group_pattern(map, "pattern");
  spec.has_gold_list = map.optional_boolean("list", false);
  spec.classes_field = map.optional_string("classes", "");
  map.reject_unknown();
}

void read_limit(YamlMap& map, PromptLimit& limit) {
  const auto side = map.optional_choice("truncate", {"refuse", "right", "left", "middle"}, "refuse");
  limit.side = side == "right"    ? PromptLimit::Side::kRight
               : side == "left"   ? PromptLimit::Side::kLeft
               : side == "middle" ? PromptLimit::Side::kMiddle
                                  : PromptLimit::Side::kRefuse;
  if (const auto most = map.optional("max_tokens")) limit.max_tokens = most->integer(2, 100'000'000);
}

// The template of a prompt or of what its answer begins with; throws Error for a variable that the task does not have.
Template parse_task_template(const TaskSpec& spec, const std::string& text) {
  std::vector<std::string> known;
  if (spec.exemplars) known.push_back(kExemplars);
  for (const auto& [variable, field] : spec.fields) known.push_back(variable);
  auto parts = parse_template(text);
  for (const auto& part : parts) {
    const bool is_known = !part.is_variable || std::find(known.begin(), known.end(), part.text) != known.end();
    KVC_CHECK(is_known, unknown_name("template variable", part.text, known));
  }
  return parts;
}

void read_answer_prefix(const YamlValue& value, TaskSpec& spec) {
  if (spec.kind != TaskSpec::Kind::kGenerate)
    value.fail(value.name(), ": only answers that are generated have a prefix");
  if (spec.limit.side != PromptLimit::Side::kRefuse) {
    value.fail(value.name(), ": a prompt with a prefix of its answer has prompt.truncate: refuse");
  }
  try {
    spec.answer_prefix = parse_task_template(spec, value.string());
  } catch (const Error& error) {
    if (!value.is_scalar()) throw;
    value.fail(error.what());
  }
}

void read_question(const YamlValue& value, TaskSpec& spec) {
  if (spec.kind != TaskSpec::Kind::kGenerate) value.fail(value.name(), ": only a task that generates has a question");
  spec.question = value.string();
  if (spec.question.empty()) value.fail(value.name(), " is empty, expected the text with which the question begins");
  if (spec.template_file) return;  // the data's, which is not read yet
  try {
    find_in_template(spec.prompt, spec.question);
  } catch (const Error& error) {
    value.fail(error.what());
  }
}

void check_exemplar_template(const YamlValue& value, const TaskSpec& spec) {
  std::vector<std::string> known;
  for (const auto& [name, field] : spec.fields) known.push_back(name);
  for (const auto& [name, field] : spec.exemplars->fields) known.push_back(name);
  if (spec.kind == TaskSpec::Kind::kChoices) known.push_back("choice");
  for (const auto& part : spec.exemplars->item) {
    if (part.is_variable && std::find(known.begin(), known.end(), part.text) == known.end()) {
      value.fail(unknown_name("template variable", part.text, known));
    }
  }
}

void read_prompt(const YamlValue& value, TaskSpec& spec) {
  auto map = value.map();
  if (const auto exemplars = map.optional(kExemplars); exemplars && !exemplars->is_null()) {
    spec.exemplars = read_exemplar_spec(*exemplars);
    check_exemplar_template(*exemplars, spec);
  }
  read_template(map.required("template"), spec);
  spec.is_chat_turn = map.optional_choice("chat", {"never", "turn"}, "never") == "turn";
  read_limit(map, spec.limit);
  if (const auto prefix = map.optional("answer_prefix")) read_answer_prefix(*prefix, spec);
  if (const auto question = map.optional("question")) read_question(*question, spec);
  map.reject_unknown();
}

BucketSpec read_bucket(const YamlValue& value) {
  auto map = value.map();
  BucketSpec bucket;
  bucket.by = map.required_string("by");
  if (const auto below = map.optional("below")) {
    for (const auto& [label, bound] : below->map().entries()) {
      bucket.bounds.push_back({label, bound.integer()});
      const auto n = bucket.bounds.size();
      if (n > 1 && bucket.bounds[n - 2].below >= bucket.bounds[n - 1].below) {
        bound.fail(bound.name(), " is ", bound.found(), ", expected more than the one before it");
      }
    }
    bucket.rest = map.required_string("rest");
  }
  map.reject_unknown();
  return bucket;
}

std::vector<std::string> read_stop(YamlMap& map, const char* key) {
  const auto value = map.optional(key);
  std::vector<std::string> stop;
  if (!value) return stop;
  for (const auto& item : value->sequence()) {
    stop.push_back(item.string());
    if (stop.back().empty()) item.fail(item.name(), " is empty: every generation would be cut to nothing");
  }
  return stop;
}

void read_choices(const YamlValue& value, TaskSpec& spec) {
  std::vector<std::string> fields;
  for (const auto& [name, field] : spec.fields) fields.push_back(name);
  spec.choices = read_choice_spec(value, fields);
  spec.metric = "accuracy";
  if (spec.is_chat_turn) value.fail("a task that scores continuations has prompt.chat: never");
  const bool cuts_what_is_asked =
      spec.limit.side == PromptLimit::Side::kRight || spec.limit.side == PromptLimit::Side::kMiddle;
  if (cuts_what_is_asked) value.fail("a task that scores continuations has prompt.truncate: left or refuse");
}

void read_likelihood(const YamlValue& value, TaskSpec& spec) {
  spec.likelihood = read_likelihood_spec(value);
  spec.metric = "agreement";
  spec.max_new_tokens = spec.likelihood->tokens - spec.likelihood->prompt_tokens;
  if (spec.is_chat_turn) value.fail("a task that reads a text has prompt.chat: never");
  if (spec.limit.side != PromptLimit::Side::kRefuse || spec.limit.max_tokens) {
    value.fail("a task that reads a text is cut into windows: prompt.truncate and prompt.max_tokens have no meaning");
  }
}

void read_generation(YamlMap& map, TaskSpec& spec) {
  const auto most = map.required("max_new_tokens");
  spec.max_new_tokens = most.integer(1, 1'000'000);
  if (const auto least = map.optional("min_new_tokens")) spec.min_new_tokens = least->integer(0, spec.max_new_tokens);
  spec.stop = read_stop(map, "stop");
  spec.stop_tokens = read_stop(map, "stop_tokens");
  read_scoring(map, spec);
}

}  // namespace

void read_instead(const std::vector<std::filesystem::path>& texts, TaskSpec& spec) {
  spec.data = {};
  spec.data.format = DataSpec::Format::kText;
  for (const auto& text : texts) {
    const auto file = std::filesystem::absolute(text);
    spec.data.parts.push_back({{TaskFile::Root::kTask, file.filename(), text.string(), file.parent_path()}, {}, 0, {}});
  }
  for (auto& [variable, field] : spec.fields) field = {"text", std::nullopt, std::nullopt};
}

std::vector<std::string> data_files(const TaskSpec& spec) {
  std::vector<std::string> files;
  const auto add = [&](const TaskFile& file) {
    if (file.root == TaskFile::Root::kDataDir) files.push_back(file.file);
  };
  const auto add_data = [&](const DataSpec& data) {
    for (const auto& part : data.parts) add(part.file);
    if (data.beside) add(data.beside->file);
    if (data.haystack) add(data.haystack->filler);
    if (!data.made) return;
    for (const auto& file : data.made->files) add(file);
  };
  add_data(spec.data);
  if (spec.template_file) add(*spec.template_file);
  if (!spec.exemplars) return files;
  if (spec.exemplars->file) add(*spec.exemplars->file);
  if (spec.exemplars->items_file) add(*spec.exemplars->items_file);
  const bool has_items = spec.exemplars->items_file || !spec.exemplars->items.empty();
  if (spec.exemplars->data && has_items) add_data(*spec.exemplars->data);
  return files;
}

Template parse_prompt_template(const TaskSpec& spec, const std::string& text) {
  auto parts = parse_task_template(spec, text);
  const bool has_field = std::any_of(parts.begin(), parts.end(),
                                     [](const auto& part) { return part.is_variable && part.text != kExemplars; });
  KVC_CHECK(has_field, "prompt.template names no field: every prompt would be the same");
  return parts;
}

TaskSpec load_task(const TaskId& id) {
  auto map = load_task_yaml(id);
  map.required("version").integer(kFormatVersion, kFormatVersion);
  TaskSpec spec;
  spec.name = id.name();
  spec.yaml_file = id.yaml_file;
  spec.summary = map.required("summary").string();
  if (const auto kind = map.optional("kind")) {
    const auto name = kind->choice({"generate", "choices", "likelihood"});
    if (name == "choices") spec.kind = TaskSpec::Kind::kChoices;
    if (name == "likelihood") spec.kind = TaskSpec::Kind::kLikelihood;
  }
  spec.data = read_data_spec(map.required("data"));
  spec.fields = read_fields(map.required("fields"));
  if (spec.kind != TaskSpec::Kind::kLikelihood) read_gold(map.required("gold"), spec);
  read_prompt(map.required("prompt"), spec);
  if (const auto buckets = map.optional("buckets")) {
    for (const auto& item : buckets->sequence()) spec.buckets.push_back(read_bucket(item));
  }
  if (spec.kind == TaskSpec::Kind::kChoices) {
    read_choices(map.required("choices"), spec);
  } else if (spec.kind == TaskSpec::Kind::kLikelihood) {
    read_likelihood(map.required("likelihood"), spec);
  } else {
    read_generation(map, spec);
  }
  map.reject_unknown(false);  // what the task that it is like has for its own kind stays unread
  return spec;
}

}  // namespace kvc
