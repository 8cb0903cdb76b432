#include "analysis/table.h"

#include <sqlite3.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "analysis/weights_note.h"
#include "kvc/check.h"
#include "store/embedded_sql.h"
#include "text/nearest.h"

namespace kvc {
namespace {

using Align = TableColumn::Align;

std::string shortest(double value) {  // the fewest digits that read back as the same double
  char buffer[32];
  return {buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr};
}

std::string rounded(double value, int decimals) {
  char buffer[400];
  const int n = decimals < 0 ? std::snprintf(buffer, sizeof buffer, "%.6g", value)
                             : std::snprintf(buffer, sizeof buffer, "%.*f", decimals, value);
  return {buffer, static_cast<size_t>(n)};
}

std::string markdown_text(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '|' || c == '\\') escaped += '\\';
    escaped += c == '\n' || c == '\r' ? ' ' : c;
  }
  return escaped;
}

std::string markdown_cell(const TableCell& cell, int decimals) {
  if (const auto* number = std::get_if<int64_t>(&cell)) return concat(*number);
  if (const auto* real = std::get_if<double>(&cell)) return rounded(*real, decimals);
  if (const auto* text = std::get_if<std::string>(&cell)) return markdown_text(*text);
  return "";
}

std::string heading(const TableColumn& column) {
  return column.unit.empty() ? column.name : concat(column.name, " [", column.unit, "]");
}

size_t n_shown(std::string_view text) {  // code points
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string padded(const std::string& text, size_t width, Align align) {
  const std::string space(width - std::min(width, n_shown(text)), ' ');
  return align == Align::kRight ? space + text : text + space;
}

std::string csv_text(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string escaped = "\"";
  for (const char c : text) {
    if (c == '"') escaped += '"';
    escaped += c;
  }
  return escaped + "\"";
}

std::string csv_cell(const TableCell& cell) {
  if (const auto* number = std::get_if<int64_t>(&cell)) return concat(*number);
  if (const auto* real = std::get_if<double>(&cell)) return shortest(*real);
  if (const auto* text = std::get_if<std::string>(&cell)) return csv_text(*text);
  return "";
}

nlohmann::ordered_json json_cell(const TableCell& cell) {
  if (const auto* number = std::get_if<int64_t>(&cell)) return *number;
  if (const auto* real = std::get_if<double>(&cell)) return *real;
  if (const auto* text = std::get_if<std::string>(&cell)) return *text;
  return nullptr;
}

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

std::string write_markdown(const Table& table) {
  std::vector<std::vector<std::string>> lines(1);
  for (const auto& column : table.columns) lines[0].push_back(markdown_text(heading(column)));
  for (const auto& row : table.rows) {
    auto& line = lines.emplace_back();
    for (size_t i = 0; i < row.size(); ++i) line.push_back(markdown_cell(row[i], table.columns[i].decimals));
  }
  std::vector<size_t> widths(table.columns.size(), 3);
  for (const auto& line : lines) {
    for (size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], n_shown(line[i]));
  }
  std::string text = table.title.empty() ? "" : concat("**", table.title, "**\n\n");
  for (size_t i_line = 0; i_line < lines.size(); ++i_line) {
    for (size_t i = 0; i < widths.size(); ++i) {
      text += (i ? " | " : "| ") + padded(lines[i_line][i], widths[i], table.columns[i].align);
    }
    text += " |\n";
    if (i_line > 0) continue;
    for (size_t i = 0; i < widths.size(); ++i) {
      const bool right = table.columns[i].align == Align::kRight;
      text += (i ? " | " : "| ") + std::string(widths[i] - right, '-') + (right ? ":" : "");
    }
    text += " |\n";
  }
  for (size_t i = 0; i < table.notes.size(); ++i) text += (i ? "" : "\n") + concat("- ", table.notes[i], "\n");
  return text;
}

std::string write_csv(const Table& table) {
  std::string text;
  for (size_t i = 0; i < table.columns.size(); ++i) text += (i ? "," : "") + csv_text(heading(table.columns[i]));
  text += "\r\n";
  for (const auto& row : table.rows) {
    for (size_t i = 0; i < row.size(); ++i) text += (i ? "," : "") + csv_cell(row[i]);
    text += "\r\n";
  }
  return text;
}

std::string write_json(const Table& table) {
  nlohmann::ordered_json json = {{"title", table.title}, {"columns", nlohmann::ordered_json::array()}};
  for (const auto& column : table.columns) json["columns"].push_back(heading(column));
  json["rows"] = nlohmann::ordered_json::array();
  for (const auto& row : table.rows) {
    auto& object = json["rows"].emplace_back(nlohmann::ordered_json::object());
    for (size_t i = 0; i < row.size(); ++i) object[heading(table.columns[i])] = json_cell(row[i]);
  }
  json["notes"] = table.notes;
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string write_table(const Table& table, const std::string& format) {
  return format == "csv" ? write_csv(table) : format == "json" ? write_json(table) : write_markdown(table);
}

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
