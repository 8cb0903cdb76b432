#include "render/table.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "kvc/check.h"
#include "render/escape.h"
#include "render/numbers.h"
#include "text/utf8.h"

namespace kvc {
namespace {

using Align = TableColumn::Align;

std::string markdown_cell(const TableCell& cell, int decimals) {
  if (const auto* number = std::get_if<int64_t>(&cell)) return concat(*number);
  if (const auto* real = std::get_if<double>(&cell)) return rounded(*real, decimals);
  if (const auto* text = std::get_if<std::string>(&cell)) return escape_markdown(*text);
  return "";
}

std::string heading(const TableColumn& column) {
  return column.unit.empty() ? column.name : concat(column.name, " [", column.unit, "]");
}

std::string padded(const std::string& text, size_t width, Align align) {
  const std::string space(width - std::min(width, n_code_points(text)), ' ');
  return align == Align::kRight ? space + text : text + space;
}

std::string csv_cell(const TableCell& cell) {
  if (const auto* number = std::get_if<int64_t>(&cell)) return concat(*number);
  if (const auto* real = std::get_if<double>(&cell)) return shortest(*real);
  if (const auto* text = std::get_if<std::string>(&cell)) return escape_csv(*text);
  return "";
}

nlohmann::ordered_json json_cell(const TableCell& cell) {
  if (const auto* number = std::get_if<int64_t>(&cell)) return *number;
  if (const auto* real = std::get_if<double>(&cell)) return *real;
  if (const auto* text = std::get_if<std::string>(&cell)) return *text;
  return nullptr;
}

}  // namespace

std::string write_markdown(const Table& table) {
  std::vector<std::vector<std::string>> lines(1);
  for (const auto& column : table.columns) lines[0].push_back(escape_markdown(heading(column)));
  for (const auto& row : table.rows) {
    auto& line = lines.emplace_back();
    for (size_t i = 0; i < row.size(); ++i) line.push_back(markdown_cell(row[i], table.columns[i].decimals));
  }
  std::vector<size_t> widths(table.columns.size(), 3);
  for (const auto& line : lines) {
    for (size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], n_code_points(line[i]));
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
  for (size_t i = 0; i < table.columns.size(); ++i) text += (i ? "," : "") + escape_csv(heading(table.columns[i]));
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

}  // namespace kvc
