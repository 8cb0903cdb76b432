// Where a task's questions are, in which form, and which of their fields it uses.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "data/haystack.h"
#include "data/made.h"
#include "data/task_file.h"
#include "scoring/regex.h"
#include "text/text_file.h"

namespace kvc {

struct DataSpec {
  enum class Format {
    kJsonl,  // one object a line, or one list of objects
    kJson,   // one document: the list of objects, or an object whose member `items` is it
    kCsv,    // RFC 4180 without a header; `columns` names the fields
    kLines,  // as many lines an item as `columns` has names
    kText,   // the whole file is one item, with one field, `text`
  };
  // One file's items, or some of them.
  struct Part {
    TaskFile file;
    std::map<std::string, std::string> set;  // fields that its items get
    int64_t begin = 0;
    std::optional<int64_t> end;
  };
  // A file with one line for each item, which is the item's field `column`.
  struct Beside {
    TaskFile file;
    std::string column;
  };
  Format format = Format::kJsonl;
  TextEncoding encoding = TextEncoding::kUtf8;
  std::string items;  // "": the document
  std::vector<std::string> columns;
  std::vector<Part> parts;
  std::optional<Beside> beside;
  std::optional<Haystack> haystack;  // made, not read
  std::optional<MadeSpec> made;      // the same, of a length that may be in a model's tokens
};

// One template variable: a field, or what of it a pattern finds.
struct FieldSpec {
  std::string from;                 // a field's name, or a JSON pointer (/a/b)
  std::optional<Regex> pattern;     // its first group in the first match
  std::optional<std::string> join;  // between the texts of a list
};

DataSpec read_data_spec(const YamlValue& value);
FieldSpec read_field_spec(const YamlValue& value);                       // a name, or {from, pattern, join}
std::optional<Regex> read_group_pattern(YamlMap& map, const char* key);  // with at least one group

}  // namespace kvc
