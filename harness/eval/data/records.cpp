#include "data/records.h"

#include "data/csv.h"
#include "kvc/check.h"
#include "text/files.h"
#include "text/json.h"
#include "text/jsonl.h"
#include "text/nearest.h"
#include "text/text_file.h"
#include "text/utf8.h"

namespace kvc {
namespace {

using Json = nlohmann::json;

std::vector<std::string> split_lines(const std::string& text) {
  std::vector<std::string> lines;
  size_t start = 0;
  for (size_t end; (end = text.find('\n', start)) != std::string::npos; start = end + 1) {
    lines.push_back(text.substr(start, end - start));
    if (lines.back().ends_with('\r')) lines.back().pop_back();
  }
  if (start < text.size()) lines.push_back(text.substr(start));
  return lines;
}

std::vector<Record> read_json_items(const DataSpec& spec, const std::filesystem::path& path) {
  NonFinite non_finite;
  auto document = parse_text_json(read_text(path, spec.encoding), path.string(), {}, non_finite);
  non_finite.tell(path);
  Json* items = &document;
  if (!spec.items.empty()) {
    KVC_CHECK(document.is_object() && document.contains(spec.items) && document[spec.items].is_array(), path.string(),
              ":1:1: error: expected an object whose member '", spec.items, "' is a list");
    items = &document[spec.items];
  }
  KVC_CHECK(items->is_array(), path.string(), ":1:1: error: the document is ", document.type_name(),
            ", expected a list of objects; where a member of an object is the list, `items` names it");
  std::vector<Record> records;
  for (auto& item : *items) {
    records.push_back({std::move(item), concat(path.string(), ":", spec.items, "[", records.size(), "]")});
  }
  return records;
}

std::vector<Record> read_csv_items(const DataSpec& spec, const std::string& file, const std::string& text) {
  std::vector<Record> records;
  for (const auto& row : parse_csv(file, text)) {
    KVC_CHECK(row.fields.size() == spec.columns.size(), file, ":", row.line, ":1: error: the row has ",
              row.fields.size(), " fields, expected ", spec.columns.size(), " (", join(spec.columns), ")");
    Json object = Json::object();
    for (size_t i = 0; i < row.fields.size(); ++i) object[spec.columns[i]] = row.fields[i];
    records.push_back({std::move(object), concat(file, ":", row.line)});
  }
  return records;
}

std::vector<Record> read_line_items(const DataSpec& spec, const std::string& file, const std::string& text) {
  const auto lines = split_lines(text);
  const size_t n = spec.columns.size();
  KVC_CHECK(lines.size() % n == 0, file, ":", lines.size(), ":1: error: the file has ", lines.size(),
            " lines, expected a multiple of ", n, " (", join(spec.columns), ")");
  std::vector<Record> records;
  for (size_t start = 0; start < lines.size(); start += n) {
    Json object = Json::object();
    for (size_t i = 0; i < n; ++i) object[spec.columns[i]] = lines[start + i];
    records.push_back({std::move(object), concat(file, ":", start + 1)});
  }
  return records;
}

std::vector<Record> read_items(const DataSpec& spec, const std::filesystem::path& path) {
  std::vector<Record> records;
  switch (spec.format) {
    case DataSpec::Format::kJsonl:
      read_jsonl(
          path,
          [&](int64_t line, const Json& object) {
            records.push_back({object, concat(path.string(), ":", line)});
          },
          {}, spec.encoding);
      return records;
    case DataSpec::Format::kJson:
      return read_json_items(spec, path);
    case DataSpec::Format::kCsv:
      return read_csv_items(spec, path.string(), read_text(path, spec.encoding));
    case DataSpec::Format::kLines:
      return read_line_items(spec, path.string(), read_text(path, spec.encoding));
    case DataSpec::Format::kText:
      return {{Json{{"text", read_text(path, spec.encoding)}}, concat(path.string(), ":1")}};
  }
  throw Error("DataSpec::Format out of range");
}

void add_part(const DataSpec& spec, const DataSpec::Part& part, const std::filesystem::path& path, Records& records) {
  auto items = read_items(spec, path);
  const auto n = static_cast<int64_t>(items.size());
  const int64_t end = part.end.value_or(n);
  KVC_CHECK(part.begin <= n && end <= n, part.file.where, ": error: items ", part.begin, " to ", end, " of '",
            path.string(), "', which has ", n);
  for (int64_t i = part.begin; i < end; ++i) {
    auto& record = items[static_cast<size_t>(i)];
    KVC_CHECK(record.object.is_object(), record.where, ":1: error: an item is ", record.object.type_name(),
              ", expected an object");
    for (const auto& [name, value] : part.set) record.object[name] = value;
    records.items.push_back(std::move(record));
  }
}

void add_beside(const DataSpec& spec, const std::filesystem::path& path, Records& records) {
  const auto lines = split_lines(read_text(path, spec.encoding));
  KVC_CHECK(lines.size() == records.items.size(), path.string(), ":", lines.size(), ":1: error: ", lines.size(),
            " lines next to ", records.items.size(), " items, expected as many");
  for (size_t i = 0; i < lines.size(); ++i) records.items[i].object[spec.beside->column] = lines[i];
}

const Json& find_field(const std::string& name, const Record& record) {
  if (name.starts_with('/')) {
    Json::json_pointer pointer;
    try {
      pointer = Json::json_pointer(name);
    } catch (const Json::exception&) {
      throw Error(concat(record.where, ":1: error: '", name, "' is no JSON pointer"));
    }
    KVC_CHECK(record.object.contains(pointer), record.where, ":1: error: there is no field '", name, "'");
    return record.object[pointer];
  }
  const auto found = record.object.find(name);
  if (found != record.object.end()) return *found;
  std::vector<std::string> known;
  for (const auto& [key, value] : record.object.items()) known.push_back(key);
  throw Error(concat(record.where, ":1: error: ", unknown_name("field", name, known)));
}

std::string text_of(const FieldSpec& field, const Json& value, const Record& record) {
  if (value.is_array() && field.join) {
    std::vector<std::string> texts;
    for (const auto& item : value) texts.push_back(text_of({field.from, std::nullopt, std::nullopt}, item, record));
    return join(texts, *field.join);
  }
  const auto text = scalar_text(value);
  KVC_CHECK(text, record.where, ":1: error: field '", field.from, "' is ", value.type_name(),
            ", expected a string, a number or a boolean");
  return *text;
}

}  // namespace

Records read_records(const DataSpec& spec, const std::filesystem::path& data_dir) {
  Records records;
  if (spec.made) throw Error(concat(spec.made->where, ": error: questions that are made are no exemplars"));
  if (spec.haystack) {
    for (auto& object : make_haystacks(*spec.haystack, data_dir)) {
      records.items.push_back({std::move(object), concat("generated question ", records.items.size())});
    }
    std::string all;
    for (const auto& record : records.items) all += record.object.dump() + "\n";
    records.sha256 = sha256_hex(all);
    return records;
  }
  std::vector<std::filesystem::path> files;
  for (const auto& part : spec.parts) {
    files.push_back(locate(part.file, data_dir));
    add_part(spec, part, files.back(), records);
  }
  KVC_CHECK(!records.items.empty(), files.front().string(), ":1:1: error: the file holds no samples");
  if (spec.beside) {
    files.push_back(locate(spec.beside->file, data_dir));
    add_beside(spec, files.back(), records);
  }
  std::string hashes;
  for (const auto& file : files) hashes += sha256_file(file);
  records.sha256 = files.size() == 1 ? hashes : sha256_hex(hashes);
  return records;
}

static std::string matched(const FieldSpec& field, const std::string& text, const Record& record) {
  if (!field.pattern) return text;
  const auto found = field.pattern->find(text, 1, false);
  KVC_CHECK(found, record.where, ":1: error: field '", field.from, "' has no match of ",
            in_quotes(field.pattern->pattern()));
  return *found;
}

std::string field_text(const FieldSpec& field, const Record& record) {
  return matched(field, text_of(field, find_field(field.from, record), record), record);
}

std::vector<std::string> field_list(const FieldSpec& field, const Record& record) {
  const auto& value = find_field(field.from, record);
  KVC_CHECK(value.is_array() && !value.empty(), record.where, ":1: error: field '", field.from, "' is ",
            value.is_array() ? "empty" : value.type_name(), ", expected a list of strings");
  std::vector<std::string> texts;
  for (const auto& item : value) {
    const auto text = scalar_text(item);
    KVC_CHECK(text, record.where, ":1: error: field '", field.from, "' holds ", item.type_name(),
              ", expected a list of strings, numbers or booleans");
    texts.push_back(matched(field, *text, record));
  }
  return texts;
}

std::vector<std::string> field_texts(const FieldSpec& field, const Record& record) {
  const auto& value = find_field(field.from, record);
  if (value.is_array()) {
    std::vector<std::string> texts;
    for (const auto& item : value) texts.push_back(text_of(field, item, record));
    return texts;
  }
  const auto text = text_of(field, value, record);
  return field.pattern ? field.pattern->find_all(text, 1) : std::vector{text};
}

}  // namespace kvc
