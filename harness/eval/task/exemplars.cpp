#include "task/exemplars.h"

#include <nlohmann/json.hpp>

#include "data/records.h"
#include "kvc/check.h"
#include "task/choices.h"
#include "text/files.h"
#include "text/json.h"
#include "text/text_file.h"
#include "text/utf8.h"

namespace kvc {
namespace {

using Json = nlohmann::json;

std::vector<int64_t> read_items_file(const ExemplarSpec& spec, const std::filesystem::path& path) {
  try {
    return read_json_text(path).at(Json::json_pointer(spec.items_pointer)).get<std::vector<int64_t>>();
  } catch (const Json::exception&) {
    throw Error(concat(path.string(), ":1:1: error: expected JSON with a list of integers at ", spec.items_pointer));
  }
}

std::string from_file(const ExemplarSpec& spec, const std::filesystem::path& path) {
  auto text = read_text(path);
  if (!spec.after.empty()) {
    const auto at = text.find(spec.after);
    KVC_CHECK(at != std::string::npos, path.string(), ":1:1: error: the file does not hold ", in_quotes(spec.after));
    text.erase(0, at + spec.after.size());
  }
  return text;
}

}  // namespace

ExemplarSpec read_exemplar_spec(const YamlValue& value) {
  auto map = value.map();
  ExemplarSpec spec;
  const auto data = map.optional("data");
  if (!data) {
    spec.file = read_task_file(map, {"task", "data_dir", "prompts"});
    spec.after = map.optional_string("after", "");
    map.reject_unknown();
    return spec;
  }
  spec.data = read_data_spec(*data);
  if (const auto fields = map.optional("fields")) {
    for (const auto& [name, field] : fields->map().entries()) spec.fields[name] = read_field_spec(field);
  }
  spec.item = parse_template(map.required("template").string());
  const auto items = map.required("items");
  if (items.is_sequence()) {
    for (const auto& item : items.sequence()) spec.items.push_back(item.integer(0));
  } else {
    auto items_map = items.map();
    spec.items_file = read_task_file(items_map, {"task", "data_dir"});
    spec.items_pointer = items_map.required_string("pointer");
    items_map.reject_unknown();
  }
  map.reject_unknown();
  return spec;
}

Exemplars load_exemplars(const ExemplarSpec& spec, const std::map<std::string, FieldSpec>& fields,
                         const ChoiceSpec* choices, const FieldSpec& gold, const std::filesystem::path& data_dir) {
  if (spec.file) {
    auto text = from_file(spec, locate(*spec.file, data_dir));
    return {text, sha256_hex(text)};
  }
  if (!spec.items_file && spec.items.empty()) return {"", sha256_hex("")};
  const auto records = read_records(*spec.data, data_dir);
  const auto items = spec.items_file ? read_items_file(spec, locate(*spec.items_file, data_dir)) : spec.items;
  auto all_fields = spec.fields;
  all_fields.insert(fields.begin(), fields.end());
  Exemplars exemplars;
  for (const int64_t i : items) {
    KVC_CHECK(i >= 0 && i < static_cast<int64_t>(records.items.size()), spec.data->parts.front().file.where,
              ": error: exemplar ", i, " of ", records.items.size(), " items");
    const auto& record = records.items[static_cast<size_t>(i)];
    std::map<std::string, std::string> texts;
    for (const auto& [name, field] : all_fields) texts[name] = field_text(field, record);
    if (choices) {
      const auto all = choice_texts(*choices, texts, record);
      texts["choice"] =
          all.at(static_cast<size_t>(gold_choice(*choices, field_text(gold, record), all.size(), record.where)));
    }
    for (const auto& part : spec.item) exemplars.text += part.is_variable ? texts.at(part.text) : part.text;
  }
  exemplars.sha256 = sha256_hex(exemplars.text);
  return exemplars;
}

}  // namespace kvc
