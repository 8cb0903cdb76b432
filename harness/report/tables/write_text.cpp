// Tables of papers as Markdown, CSV and JSON.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "kvc/check.h"
#include "tables/paper_table.h"
#include "text/nearest.h"

namespace kvc {
namespace {

using Rank = ShownCell::Rank;
using nlohmann::ordered_json;

bool is_number(const TableCell& cell) {
  return std::holds_alternative<double>(cell) || std::holds_alternative<int64_t>(cell);
}

std::string markdown_cell(const ShownCell& cell, const ColumnStyle& style) {
  auto text = shown_value(cell, style);
  if (cell.rank == Rank::kBest) text = "**" + text + "**";
  if (cell.rank == Rank::kSecond) text = "<u>" + text + "</u>";
  return text + shown_interval(cell, style);
}

TableColumn::Align align_of(const PaperTable& table, size_t column) {
  const bool left = std::any_of(table.rows.begin(), table.rows.end(), [&](const ShownRow& row) {
    return std::holds_alternative<std::string>(row.cells[column].value) && !table.columns[column].printed;
  });
  return left ? TableColumn::Align::kLeft : TableColumn::Align::kRight;
}

Table start_table(const PaperTable& table) {
  Table flat{table.title, {}, {}, {}};
  if (has_row_groups(table)) flat.columns.push_back({"group"});
  flat.columns.push_back({table.row_heading});
  for (const auto& row : table.rows) {
    auto& line = flat.rows.emplace_back();
    if (has_row_groups(table)) line.emplace_back(row.group);
    line.emplace_back(row.name);
  }
  return flat;
}

ordered_json json_value(const TableCell& cell) {
  if (const auto* number = std::get_if<int64_t>(&cell)) return *number;
  if (const auto* real = std::get_if<double>(&cell)) return *real;
  if (const auto* text = std::get_if<std::string>(&cell)) return *text;
  return nullptr;
}

}  // namespace

bool has_row_groups(const PaperTable& table) {
  return std::any_of(table.rows.begin(), table.rows.end(), [](const ShownRow& row) { return !row.group.empty(); });
}

std::string column_heading(const ShownColumn& column) {
  const auto name = column.group.empty() ? column.style.label : concat(column.group, ": ", column.style.label);
  return column.style.unit.empty() ? name : concat(name, " [", column.style.unit, "]");
}

std::string write_markdown(const PaperTable& table) {
  auto flat = start_table(table);
  for (size_t i = 0; i < table.columns.size(); ++i) {
    flat.columns.push_back({column_heading(table.columns[i]), align_of(table, i)});
    for (size_t r = 0; r < table.rows.size(); ++r) {
      flat.rows[r].emplace_back(markdown_cell(table.rows[r].cells[i], table.columns[i].style));
    }
  }
  for (const auto& warning : table.warnings) flat.title += ". " + warning;
  flat.notes = table.notes;
  return write_markdown(flat);
}

std::string write_csv(const PaperTable& table) {
  auto flat = start_table(table);
  for (size_t i = 0; i < table.columns.size(); ++i) {
    const auto name = column_heading(table.columns[i]);
    const auto add = [&](const std::string& what, TableCell ShownCell::*member) {
      const bool any = std::any_of(table.rows.begin(), table.rows.end(), [&](const ShownRow& row) {
        return !std::holds_alternative<std::monostate>(row.cells[i].*member);
      });
      if (!any && !what.empty()) return;
      flat.columns.push_back({what.empty() ? name : concat(name, ", ", what)});
      for (size_t r = 0; r < table.rows.size(); ++r) flat.rows[r].push_back(table.rows[r].cells[i].*member);
    };
    add("", &ShownCell::value);
    add("low", &ShownCell::low);
    add("high", &ShownCell::high);
    add("n", &ShownCell::n);
    if (!table.columns[i].printed) continue;
    auto& values = flat.rows;
    for (size_t r = 0; r < table.rows.size(); ++r) values[r].back() = shown_value(table.rows[r].cells[i], {});
  }
  return write_csv(flat);
}

std::string write_json(const PaperTable& table) {
  ordered_json json = {{"name", table.name}, {"title", table.title}, {"rows", ordered_json::array()}};
  for (const auto& row : table.rows) {
    ordered_json line = {{"group", row.group}, {"row", row.name}, {"cells", ordered_json::object()}};
    for (size_t i = 0; i < table.columns.size(); ++i) {
      const auto& cell = row.cells[i];
      ordered_json object = {{"value", json_value(cell.value)}};
      if (is_number(cell.low)) object["low"] = json_value(cell.low);
      if (is_number(cell.high)) object["high"] = json_value(cell.high);
      if (is_number(cell.n)) object["n"] = json_value(cell.n);
      if (!cell.mark.empty()) object["mark"] = cell.mark;
      if (!cell.keys.empty()) object["cells"] = cell.keys;
      line["cells"][column_heading(table.columns[i])] = std::move(object);
    }
    json["rows"].push_back(std::move(line));
  }
  json["warnings"] = table.warnings;
  json["notes"] = table.notes;
  return json.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

Table trace_table(Database& db, const PaperTable& table) {
  Table trace{"cells of " + table.name, {}, {}, {}};
  for (const char* name : {"row", "column", "value", "task", "compressor", "options"}) trace.columns.push_back({name});
  trace.columns.push_back({"samples", TableColumn::Align::kRight});
  trace.columns.push_back({"cell"});
  auto cell_of = db.prepare(
      "SELECT task, plugin, options_label, (SELECT count(*) FROM sample WHERE cell_key = key AND"
      " status = 'ok'), model FROM cell WHERE key = ?");
  for (const auto& row : table.rows) {
    for (size_t i = 0; i < table.columns.size(); ++i) {
      for (const auto& key : row.cells[i].keys) {
        cell_of.reset();
        if (!cell_of.bind(1, key).step()) continue;  // of a search: no cell
        trace.rows.push_back({row.id, column_heading(table.columns[i]),
                              shown_value(row.cells[i], table.columns[i].style), cell_of.text(0), cell_of.text(1),
                              cell_of.text(2), cell_of.integer(3), key});
      }
    }
  }
  trace.notes.push_back(
      "a cell's samples: kvc query \"SELECT * FROM sample WHERE cell_key = '...'\"; its prompts: text,"
      " by prompt_sha256");
  return trace;
}

std::string write_table(const PaperTable& table, const std::string& format, bool standalone) {
  if (format == "latex") return write_latex(table, standalone);
  if (format == "html") return write_html(table, standalone);
  if (format == "csv") return write_csv(table);
  return format == "json" ? write_json(table) : write_markdown(table);
}

}  // namespace kvc
