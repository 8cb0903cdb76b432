// A table of a paper as one SQL statement of its shape.
#include <algorithm>
#include <string_view>

#include "analysis/entries.h"
#include "kvc/check.h"
#include "tables/paper_table.h"
#include "text/files.h"
#include "text/nearest.h"

namespace kvc {
namespace {

// 'a text' or "a name" of SQL: its quotes doubled.
std::string in_sql_quotes(std::string_view text, char quote) {
  std::string result(1, quote);
  for (const char c : text) result += std::string(c == quote ? 2 : 1, c);
  return result + quote;
}

std::vector<std::string> column_names(Database& db, const std::string& sql) {
  const auto statement = db.prepare(sql);
  std::vector<std::string> names;
  for (int i = 0; i < statement.n_columns(); ++i) names.push_back(statement.column_name(i));
  return names;
}

bool has(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// The id of a row or a column, as PaperTable has it: "group/key", or "key" without a group.
std::string id_of(const std::vector<std::string>& names, const std::string& key) {
  const auto text = concat("CAST(", in_sql_quotes(key, '"'), " AS TEXT)"), group = key + "_group";
  if (!has(names, group)) return text;
  return concat("CASE WHEN ifnull(", group, ", '') = '' THEN ", text, " ELSE ", group, " || '/' || ", text, " END");
}

// Each figure of the long rows with its row's and its column's id.
std::string keyed_rows(const std::vector<std::string>& names, const TableLayout& layout) {
  std::string fields;
  for (const std::string field : {"low", "high", "n"})
    fields += concat(", ", has(names, field) ? "" : "NULL AS ", field);
  std::vector<std::string> hidden;
  for (const auto& column : layout.hidden) hidden.push_back(in_sql_quotes(column, '\''));
  return concat("SELECT\n      ", id_of(names, "row"), " AS row_id,\n      ", id_of(names, "column"),
                " AS column_id,\n      value", fields, "\n    FROM long",
                hidden.empty() ? "" : concat("\n    WHERE \"column\" NOT IN (", join(hidden), ")"));
}

// (row's id, its place from 1 on, group, name), ...
std::string placed_rows(const PaperTable& table) {
  std::vector<std::string> rows;
  for (const auto& row : table.rows) {
    rows.push_back(concat("(", in_sql_quotes(row.id, '\''), ", ", rows.size() + 1, ", ", in_sql_quotes(row.group, '\''),
                          ", ", in_sql_quotes(row.name, '\''), ")"));
  }
  return join(rows, ",\n      ");
}

// What write_csv shows of a column, under its headings; a heading that is there already gets the column's id behind it.
void add_column(const PaperTable& table, size_t index, std::vector<std::string>& headings, std::string& select) {
  const auto& column = table.columns[index];
  const auto add = [&](const std::string& field, TableCell ShownCell::*member) {
    const bool any = std::any_of(table.rows.begin(), table.rows.end(), [&](const ShownRow& row) {
      return !std::holds_alternative<std::monostate>(row.cells[index].*member);
    });
    if (!any && field != "value") return;
    auto heading = column_heading(column) + (field == "value" ? "" : ", " + field);
    if (has(headings, heading)) heading += concat(" (", column.id, ")");
    headings.push_back(heading);
    select += concat(",\n  max(CASE WHEN column_id = ", in_sql_quotes(column.id, '\''), " THEN ", field, " END) AS ",
                     in_sql_quotes(heading, '"'));
  };
  add("value", &ShownCell::value);
  add("low", &ShownCell::low);
  add("high", &ShownCell::high);
  add("n", &ShownCell::n);
}

}  // namespace

std::string write_sql(Database& db, const PaperTable& table, const TableLayout& layout,
                      const std::vector<std::string>& experiments) {
  auto sql = with_entries(read_file(layout.sql_file), experiments);
  if (table.columns.empty()) return sql;
  const auto names = column_names(db, sql);
  sql.erase(sql.find_last_not_of("; \n") + 1);
  std::vector<std::string> headings{table.row_heading};
  std::string select = concat("ifnull(name, row_id) AS ", in_sql_quotes(table.row_heading, '"'));
  if (has_row_groups(table)) {
    headings.push_back("group");
    select = "ifnull(row_group, '') AS \"group\", " + select;
  }
  for (size_t i = 0; i < table.columns.size(); ++i) add_column(table, i, headings, select);
  return concat("WITH\n  long AS (\n", sql, "\n  ),\n  keyed AS (\n    ", keyed_rows(names, layout),
                "),\n  placed (row_id, place, row_group, name) AS (\n    VALUES\n      ", placed_rows(table),
                ")\nSELECT\n  ", select,
                "\nFROM keyed LEFT JOIN placed USING (row_id)\nGROUP BY row_id\nORDER BY ifnull(place, ",
                table.rows.size() + 1, "), row_id;\n");
}

}  // namespace kvc
