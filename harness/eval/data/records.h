// The items of a task's data, whatever form they are in.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "data/data_spec.h"

namespace kvc {

struct Record {
  nlohmann::json object;
  std::string where;  // file:line, or file:items[i]; for messages
};

struct Records {
  std::vector<Record> items;
  std::string sha256;  // of the file; of all files' hashes where there are several
};

// Throws Error with file, line and column for what cannot be read, and where there are no items.
Records read_records(const DataSpec& spec, const std::filesystem::path& data_dir);

// A field's text: what its pattern finds of it, the texts of a list joined. Throws Error naming the record and the
// field.
std::string field_text(const FieldSpec& field, const Record& record);

// A field that is a list of at least one text, each as its pattern finds it.
std::vector<std::string> field_list(const FieldSpec& field, const Record& record);

// A field that is a list of texts, or a whole text where `pattern` finds any number of them.
std::vector<std::string> field_texts(const FieldSpec& field, const Record& record);

}  // namespace kvc
