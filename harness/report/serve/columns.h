// What the columns of results/schema.sql say: results/columns.yaml, built into the program.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "render/table.h"
#include "store/database.h"

namespace kvc {

struct ColumnText {
  std::string unit;  // "bytes", or "" where there is none
  std::string text;
};

struct TableText {
  std::string about;
  std::map<std::string, ColumnText> columns;  // its own; not those that are said once for all tables
};

struct ColumnTexts {
  std::map<std::string, ColumnText> everywhere;
  std::map<std::string, TableText> tables;
  // Throws Error naming the column where nothing is said of it.
  const ColumnText& of(const std::string& table, const std::string& column) const;
};

std::string_view columns_yaml();
ColumnTexts read_columns(const std::string& yaml);  // throws Error file:line:column

// The schema's tables and views with their columns, as SQLite sees them.
std::map<std::string, std::vector<std::string>> schema_columns(Database& db);

// One row a column: table, column, unit, text; of one table, or of all ("").
Table columns_table(const std::string& table);

}  // namespace kvc
