// A row to be inserted, its columns by name.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "store/database.h"

namespace kvc {

class NewRow {
 public:
  using Value = std::variant<int64_t, double, std::string, std::optional<int64_t>>;

  explicit NewRow(std::string table) : table_(std::move(table)) {}
  NewRow& set(std::string column, Value value);
  // conflict: an ON CONFLICT clause, or ""
  void insert(Database& db, const std::string& conflict = "") const;

 private:
  std::string table_;
  std::vector<std::string> columns_;
  std::vector<Value> values_;
};

}  // namespace kvc
