#include "task/dataset.h"

#include <nlohmann/json.hpp>

#include "kvc/check.h"
#include "text/files.h"
#include "text/jsonl.h"
#include "text/nearest.h"
#include "text/utf8.h"

namespace kvc {
namespace {

using Json = nlohmann::json;

std::filesystem::path locate(const TaskSpec& spec, const TaskFile& file, const std::filesystem::path& data_dir) {
  const auto folder = std::filesystem::absolute(spec.yaml_file).parent_path();
  std::filesystem::path path;
  switch (file.root) {
    case TaskFile::Root::kTask:
      path = folder / file.file;
      break;
    case TaskFile::Root::kPrompts:
      path = folder.parent_path().parent_path() / "prompts" / file.file;
      break;
    case TaskFile::Root::kDataDir:
      KVC_CHECK(!data_dir.empty(), file.where, ": error: '", file.file,
                "' is in the data folder, and none was given: set KVC_DATA or the experiment's data_dir");
      path = data_dir / file.file;
  }
  KVC_CHECK(std::filesystem::is_regular_file(path), file.where, ": error: there is no file '", path.string(), "'");
  return path;
}

// The field in one line of data; `where` is file:line.
const Json& find_field(const Json& object, const std::string& field, const std::string& where) {
  if (!object.is_object())
    throw Error(concat(where, ":1: error: a line is ", object.type_name(), ", expected an object"));
  const auto found = object.find(field);
  if (found == object.end()) {
    std::vector<std::string> known;
    for (const auto& [key, value] : object.items()) known.push_back(key);
    throw Error(concat(where, ":1: error: ", unknown_name("field", field, known)));
  }
  return *found;
}

std::string string_field(const Json& object, const std::string& field, const std::string& where) {
  const auto& value = find_field(object, field, where);
  KVC_CHECK(value.is_string(), where, ":1: error: field '", field, "' is ", value.type_name(), ", expected a string");
  return value.get<std::string>();
}

std::vector<std::string> strings_field(const Json& object, const std::string& field, const std::string& where) {
  const auto& value = find_field(object, field, where);
  KVC_CHECK(value.is_array() && !value.empty(), where, ":1: error: field '", field, "' is ",
            value.is_array() ? "empty" : value.type_name(), ", expected a list of strings");
  std::vector<std::string> strings;
  for (const auto& item : value) {
    KVC_CHECK(item.is_string(), where, ":1: error: field '", field, "' holds ", item.type_name(),
              ", expected a list of strings");
    strings.push_back(item.get<std::string>());
  }
  return strings;
}

Gold read_gold(const TaskSpec& spec, const Json& object, const std::string& where) {
  Gold gold;
  const auto texts = spec.has_gold_list ? strings_field(object, spec.gold_field, where)
                                        : std::vector{string_field(object, spec.gold_field, where)};
  for (const auto& text : texts) {
    const auto answer = match_gold(spec, text);
    KVC_CHECK(answer, where, ":1: error: field '", spec.gold_field, "' has no match of ",
              in_quotes(spec.gold_pattern->pattern()));
    gold.answers.push_back(*answer);
  }
  if (!spec.classes_field.empty()) gold.classes = strings_field(object, spec.classes_field, where);
  return gold;
}

Sample read_sample(const TaskSpec& spec, const Json& object, int64_t id, const std::string& where) {
  const auto gold = read_gold(spec, object, where);
  Sample sample{.id = id, .fields = {}, .gold = gold_text(gold, has_structured_gold(spec))};
  for (const auto& [variable, field] : spec.fields) sample.fields[variable] = string_field(object, field, where);
  for (const auto& extractor : spec.extractors) {
    for (const auto& answer : gold.answers) {
      KVC_CHECK(gold_answer(extractor, answer), where, ":1: error: extractor '", extractor.name,
                "' finds no answer in the gold ", in_quotes(answer));
    }
  }
  return sample;
}

std::string read_exemplars(const std::filesystem::path& path) {
  auto text = read_file(path);
  const auto bad_byte = first_invalid_utf8(text);
  KVC_CHECK(!bad_byte, "'", path.string(), "': not well-formed UTF-8 at byte ", *bad_byte);
  return text;
}

const std::string& variable_text(const Dataset& dataset, const Sample& sample, const std::string& name) {
  return name == "exemplars" ? dataset.exemplars : sample.fields.at(name);
}

}  // namespace

Dataset load_dataset(const TaskSpec& spec, const std::filesystem::path& data_dir) {
  Dataset dataset;
  if (spec.exemplars) {
    dataset.exemplars = read_exemplars(locate(spec, *spec.exemplars, data_dir));
    dataset.exemplars_sha256 = sha256_hex(dataset.exemplars);
  }
  const auto path = locate(spec, spec.data, data_dir);
  read_jsonl(path, [&](int64_t line, const Json& object) {
    const auto id = static_cast<int64_t>(dataset.samples.size());
    dataset.samples.push_back(read_sample(spec, object, id, concat(path.string(), ":", line)));
  });
  KVC_CHECK(!dataset.samples.empty(), path.string(), ":1:1: error: the file holds no samples");
  dataset.dataset_sha256 = sha256_file(path);
  return dataset;
}

Prompt render_prompt(const TaskSpec& spec, const Dataset& dataset, const Sample& sample) {
  Prompt prompt;
  bool is_shared = true;
  for (const auto& part : spec.prompt) {
    const auto& text = part.is_variable ? variable_text(dataset, sample, part.text) : part.text;
    is_shared = is_shared && (!part.is_variable || part.text == "exemplars");
    if (is_shared) prompt.shared_prefix += text;
    prompt.text += text;
    prompt.parts.push_back({part.is_variable ? part.text : "", text});
  }
  return prompt;
}

}  // namespace kvc
