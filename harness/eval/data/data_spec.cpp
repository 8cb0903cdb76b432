#include "data/data_spec.h"

#include <limits>

#include "text/utf8.h"

namespace kvc {
namespace {

constexpr int64_t kMost = std::numeric_limits<int32_t>::max();

void read_range(YamlMap& map, DataSpec::Part& part) {
  const auto range = map.optional("range");
  if (!range) return;
  const auto ends = range->sequence();
  if (ends.size() != 2)
    range->fail(range->name(), " has ", ends.size(), " values, expected [first, one past the last]");
  part.begin = ends[0].integer(0, kMost);
  part.end = ends[1].integer(part.begin + 1, kMost);
}

void read_parts(YamlMap& map, DataSpec& data) {
  const auto parts = map.optional("parts");
  if (!parts) {
    DataSpec::Part part{read_task_file(map, {"task", "data_dir"}), {}, 0, std::nullopt};
    read_range(map, part);
    data.parts.push_back(std::move(part));
    return;
  }
  for (const auto& item : parts->sequence()) {
    auto part_map = item.map();
    DataSpec::Part part{read_task_file(part_map, {"task", "data_dir"}), {}, 0, std::nullopt};
    if (const auto set = part_map.optional("set")) {
      for (const auto& [name, value] : set->map().entries()) part.set[name] = value.string();
    }
    read_range(part_map, part);
    part_map.reject_unknown();
    data.parts.push_back(std::move(part));
  }
  if (data.parts.empty()) parts->fail(parts->name(), " is empty, expected at least one file");
}

DataSpec::Format read_format(YamlMap& map) {
  const auto format = map.optional_choice("format", {"jsonl", "json", "csv", "lines", "text"}, "jsonl");
  return format == "jsonl"  ? DataSpec::Format::kJsonl
         : format == "json" ? DataSpec::Format::kJson
         : format == "csv"  ? DataSpec::Format::kCsv
         : format == "text" ? DataSpec::Format::kText
                            : DataSpec::Format::kLines;
}

}  // namespace

std::optional<Regex> read_group_pattern(YamlMap& map, const char* key) {
  const auto value = map.optional(key);
  if (!value) return std::nullopt;
  std::optional<Regex> regex;
  try {
    regex.emplace(value->string());
  } catch (const Error& error) {
    if (!value->is_scalar()) throw;
    value->fail(value->name(), ": ", error.what());
  }
  if (regex->n_groups() == 0) value->fail(value->name(), " has no group (...) for what is looked for");
  return regex;
}

DataSpec read_data_spec(const YamlValue& value) {
  auto map = value.map();
  DataSpec data;
  if (const auto haystack = map.optional("haystack")) {
    data.haystack = read_haystack(*haystack);
    map.reject_unknown();
    return data;
  }
  if (const auto made = map.optional("made")) {
    data.made = read_made_spec(*made);
    map.reject_unknown();
    return data;
  }
  data.format = read_format(map);
  read_parts(map, data);
  const bool is_latin1 = map.optional_choice("encoding", {"utf8", "latin1"}, "utf8") == "latin1";
  data.encoding = is_latin1 ? TextEncoding::kLatin1 : TextEncoding::kUtf8;
  if (data.format == DataSpec::Format::kJson) data.items = map.optional_string("items", "");
  if (data.format == DataSpec::Format::kCsv || data.format == DataSpec::Format::kLines) {
    const auto columns = map.required("columns");
    data.columns = columns.strings();
    if (data.columns.empty()) columns.fail(columns.name(), " is empty, expected the names of the fields");
  }
  if (const auto beside = map.optional("beside")) {
    auto beside_map = beside->map();
    data.beside = {read_task_file(beside_map, {"task", "data_dir"}), beside_map.required_string("column")};
    beside_map.reject_unknown();
  }
  map.reject_unknown();
  return data;
}

FieldSpec read_field_spec(const YamlValue& value) {
  if (!value.is_map()) return {value.string(), std::nullopt, std::nullopt};
  auto map = value.map();
  FieldSpec field;
  field.from = map.required_string("from");
  field.pattern = read_group_pattern(map, "pattern");
  if (const auto join = map.optional("join")) field.join = join->string();
  map.reject_unknown();
  return field;
}

}  // namespace kvc
