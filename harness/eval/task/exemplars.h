// What stands before a question: a text file, or items of a data set, each through a template.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "data/data_spec.h"
#include "data/template.h"

namespace kvc {

struct ChoiceSpec;

struct ExemplarSpec {
  // Of a text file: all of it, or what stands behind the first `after`.
  std::optional<TaskFile> file;
  std::string after;
  // Of data: these items in this order, each through the template, whose variables are the task's, and {choice}: the
  // text of the right one.
  std::optional<DataSpec> data;
  std::map<std::string, FieldSpec> fields;  // beside the task's
  Template item;
  std::vector<int64_t> items;
  std::optional<TaskFile> items_file;  // JSON; the items are the list at `items_pointer`
  std::string items_pointer;
};

ExemplarSpec read_exemplar_spec(const YamlValue& value);

struct Exemplars {
  std::string text;
  std::string sha256;  // of the text
};

// `fields` are the task's own, `choices` null where it has none.
Exemplars load_exemplars(const ExemplarSpec& spec, const std::map<std::string, FieldSpec>& fields,
                         const ChoiceSpec* choices, const FieldSpec& gold, const std::filesystem::path& data_dir);

}  // namespace kvc
