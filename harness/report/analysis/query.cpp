#include "analysis/query.h"

#include <sqlite3.h>

#include <map>

#include "analysis/weights_note.h"
#include "kvc/check.h"
#include "store/embedded_sql.h"
#include "text/nearest.h"

namespace kvc {
namespace {

using Align = TableColumn::Align;

TableCell query_cell(const Statement& row, int column) {
  switch (row.column_type(column)) {
    case SQLITE_INTEGER:
      return row.integer(column);
    case SQLITE_FLOAT:
      return row.real(column);
    case SQLITE_NULL:
      return std::monostate{};
    default:
      return row.text(column);
  }
}

Table rows_of(Statement& statement) {
  Table table;
  for (int i = 0; i < statement.n_columns(); ++i) table.columns.push_back({statement.column_name(i)});
  while (statement.step()) {
    auto& row = table.rows.emplace_back();
    for (int i = 0; i < statement.n_columns(); ++i) {
      row.push_back(query_cell(statement, i));
      if (!std::holds_alternative<std::string>(row.back()) && !std::holds_alternative<std::monostate>(row.back())) {
        table.columns[i].align = Align::kRight;
      }
    }
  }
  return table;
}

}  // namespace

Table run_query(Database& db, const std::string& sql) {
  auto statement = db.prepare(sql);
  KVC_CHECK(statement.is_read_only() && statement.n_columns() > 0, "a query must only read; this statement ",
            statement.is_read_only() ? "returns no columns" : "would write");
  return rows_of(statement);
}

Table experiment_query(Database& db, const std::string& sql, const std::string& experiment) {
  auto statement = db.prepare(sql);
  statement.bind(1, experiment);
  return rows_of(statement);
}

Table named_table(Database& db, const std::string& name, const std::string& experiment) {
  auto table = experiment_query(db, table_sql(name), experiment);
  const std::map<std::string, std::string> kinds{
      {"bench", "bench"}, {"capacity", "capacity"}, {"probe", "probe"}, {"stages", "eval"}};
  if (const auto kind = kinds.find(name); kind != kinds.end()) {
    table.title = weights_note(db, kind->second, experiment);
  }
  return table;
}

std::vector<std::string> table_names() {
  std::vector<std::string> names;
  for (const auto& table : embedded_tables()) names.emplace_back(table.name);
  return names;
}

std::string table_sql(const std::string& name) {
  for (const auto& table : embedded_tables()) {
    if (table.name == name) return std::string(table.sql);
  }
  throw Error(unknown_name("table", name, table_names()));
}

}  // namespace kvc
