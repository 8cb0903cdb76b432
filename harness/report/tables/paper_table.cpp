#include "tables/paper_table.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <limits>
#include <set>
#include <sstream>
#include <tuple>

#include "analysis/query.h"
#include "analysis/weights_note.h"
#include "kvc/check.h"
#include "render/numbers.h"
#include "text/files.h"
#include "text/nearest.h"

namespace kvc {
namespace {

enum Field {
  kRow,
  kColumn,
  kValue,
  kRowGroup,
  kRowOrder,
  kColumnGroup,
  kColumnOrder,
  kLow,
  kHigh,
  kN,
  kCells,
  kFields
};
const std::vector<std::string> kFieldNames{"row",          "column", "value", "row_group", "row_order", "column_group",
                                           "column_order", "low",    "high",  "n",         "cells"};

// Where each field stands in the SQL's result; -1: it is not there.
std::array<int, kFields> places_of(const Table& rows, const TableLayout& layout) {
  std::array<int, kFields> places;
  places.fill(-1);
  for (size_t i = 0; i < rows.columns.size(); ++i) {
    const auto found = std::find(kFieldNames.begin(), kFieldNames.end(), rows.columns[i].name);
    KVC_CHECK(found != kFieldNames.end(), layout.sql_file.string(), ": ",
              unknown_name("column", rows.columns[i].name, kFieldNames));
    places[static_cast<size_t>(found - kFieldNames.begin())] = static_cast<int>(i);
  }
  for (const auto field : {kRow, kColumn, kValue}) {
    KVC_CHECK(places[field] >= 0, layout.sql_file.string(), ": its result has no column '", kFieldNames[field], "'");
  }
  return places;
}

std::string text_of(const TableCell& cell) {
  if (const auto* text = std::get_if<std::string>(&cell)) return *text;
  if (const auto* number = std::get_if<int64_t>(&cell)) return concat(*number);
  if (const auto* real = std::get_if<double>(&cell)) return concat(*real);
  return "";
}

double number_of(const TableCell& cell) {  // for sorting: what is no number comes last
  if (const auto* number = std::get_if<int64_t>(&cell)) return static_cast<double>(*number);
  if (const auto* real = std::get_if<double>(&cell)) return *real;
  return std::numeric_limits<double>::infinity();
}

struct LongRow {
  std::string row_id, row_group, row, column_id, column_group, column;
  double row_order, column_order;
  ShownCell cell;
};

LongRow read_long_row(const std::vector<TableCell>& values, const std::array<int, kFields>& places) {
  const auto field = [&](Field f) { return places[f] < 0 ? TableCell{} : values[static_cast<size_t>(places[f])]; };
  LongRow row;
  row.row_group = text_of(field(kRowGroup)), row.row = text_of(field(kRow));
  row.column_group = text_of(field(kColumnGroup)), row.column = text_of(field(kColumn));
  row.row_id = row.row_group.empty() ? row.row : row.row_group + "/" + row.row;
  row.column_id = row.column_group.empty() ? row.column : row.column_group + "/" + row.column;
  row.row_order = number_of(field(kRowOrder)), row.column_order = number_of(field(kColumnOrder));
  row.cell = {field(kValue), field(kLow), field(kHigh), field(kN)};
  std::istringstream keys(text_of(field(kCells)));
  for (std::string key; keys >> key;) row.cell.keys.push_back(key);
  return row;
}

const std::string* find_label(const TableLayout& layout, const std::string& key) {
  for (const auto& [labelled, label] : layout.labels) {
    if (labelled == key) return &label;
  }
  return nullptr;
}

// Its label; of a task that has none what stands behind the suite.
std::string label_of(const TableLayout& layout, const std::string& key) {
  if (const auto* label = find_label(layout, key)) return *label;
  if (layout.is_own) return key;
  return key.find(' ') == std::string::npos ? key.substr(key.rfind('/') + 1) : key;
}

// A row or a column before it is one: where it stands among the others.
struct Place {
  std::string id, group, key;
  double order;
  // By the SQL's order, then as the layout lists the labels of groups and keys, then by name.
  auto rank(const TableLayout& layout) const {
    const auto listed = [&](const std::string& name) {
      return std::find_if(layout.labels.begin(), layout.labels.end(), [&](const auto& l) { return l.first == name; }) -
             layout.labels.begin();
    };
    return std::tuple(order, listed(group), group, listed(key), key);
  }
};

// The ids in their order; those of a group stay together, where its first one stands.
std::vector<std::string> ordered(std::vector<Place> places, const TableLayout& layout) {
  std::sort(places.begin(), places.end(),
            [&](const Place& a, const Place& b) { return a.rank(layout) < b.rank(layout); });
  std::vector<std::string> ids;
  for (const auto& place : places) {
    if (std::find(ids.begin(), ids.end(), place.id) != ids.end()) continue;
    for (const auto& other : places) {
      if (place.group.empty() ? other.id == place.id : other.group == place.group) ids.push_back(other.id);
    }
  }
  return ids;
}

void add_place(std::vector<Place>& places, const std::string& id, const std::string& group, const std::string& key,
               double order) {
  const auto found = std::find_if(places.begin(), places.end(), [&](const Place& place) { return place.id == id; });
  if (found == places.end()) {
    places.push_back({id, group, key, order});
  } else {
    found->order = std::min(found->order, order);
  }
}

ShownColumn make_column(const LongRow& row, const TableLayout& layout) {
  ShownColumn column{row.column_id, label_of(layout, row.column_group), layout.values};
  if (const auto found = layout.columns.find(row.column); found != layout.columns.end()) column.style = found->second;
  if (column.style.label.empty()) column.style.label = label_of(layout, row.column);
  return column;
}

std::set<std::string> keys_of(const PaperTable& table) {
  std::set<std::string> keys;
  for (const auto& row : table.rows) {
    for (const auto& cell : row.cells) keys.insert(cell.keys.begin(), cell.keys.end());
  }
  return keys;
}

}  // namespace

namespace {

// One group of columns, the model of all: of the title, where users ask for a table of their own.
void lift_only_group(PaperTable& table) {
  std::set<std::string> groups;
  for (const auto& column : table.columns) groups.insert(column.group);
  groups.erase("");
  if (groups.size() != 1) return;
  table.title += ", " + *groups.begin();
  for (auto& column : table.columns) column.group.clear();
}

}  // namespace

PaperTable make_paper_table(Database& db, const TableLayout& layout) {
  const auto result = run_query(db, read_file(layout.sql_file));
  const auto places = places_of(result, layout);
  std::vector<LongRow> long_rows;
  for (const auto& values : result.rows) {
    auto row = read_long_row(values, places);
    const auto& hidden = layout.hidden;
    if (std::find(hidden.begin(), hidden.end(), row.column) == hidden.end()) long_rows.push_back(std::move(row));
  }
  PaperTable table{layout.name, layout.title, layout.row_heading, {}, {}, {}, layout.notes};
  std::vector<Place> column_places, row_places;
  for (const auto& row : long_rows) {
    add_place(column_places, row.column_id, row.column_group, row.column, row.column_order);
    add_place(row_places, row.row_id, row.row_group, row.row, row.row_order);
  }
  const auto columns = ordered(std::move(column_places), layout), rows = ordered(std::move(row_places), layout);
  table.columns.resize(columns.size());
  for (const auto& id : rows) table.rows.push_back({id, "", "", std::vector<ShownCell>(columns.size())});
  for (auto& row : long_rows) {
    const auto c = static_cast<size_t>(std::find(columns.begin(), columns.end(), row.column_id) - columns.begin());
    const auto r = static_cast<size_t>(std::find(rows.begin(), rows.end(), row.row_id) - rows.begin());
    table.columns[c] = make_column(row, layout);
    table.rows[r].group = label_of(layout, row.row_group);
    table.rows[r].name = label_of(layout, row.row);
    auto& cell = table.rows[r].cells[c];
    KVC_CHECK(std::holds_alternative<std::monostate>(cell.value) && cell.keys.empty(), "table ", layout.name, ": row '",
              row.row_id, "', column '", row.column_id, "' has two values, ", text_of(cell.value), " and ",
              text_of(row.cell.value));
    cell = std::move(row.cell);
  }
  if (layout.is_own) lift_only_group(table);
  if (const auto weights = weights_note(db, keys_of(table)); !weights.empty()) table.warnings.push_back(weights);
  return table;
}

PaperTable as_paper_table(const Table& table) {
  PaperTable shown;
  shown.title = table.title, shown.notes = table.notes;
  std::erase_if(shown.notes, [](const auto& note) { return note.find('`') != std::string::npos; });  // what to type
  for (const auto& column : table.columns) {
    ColumnStyle style;
    style.label = column.name, style.unit = column.unit, style.decimals = column.decimals;
    shown.columns.push_back({column.name, "", style});
  }
  for (const auto& row : table.rows) {
    auto& cells = shown.rows.emplace_back().cells;
    for (const auto& value : row) cells.push_back({value, {}, {}, {}});
  }
  if (table.columns.empty()) return shown;
  shown.row_heading = shown.columns.front().style.label;
  for (auto& row : shown.rows) {
    row.name = shown_value(row.cells.front(), shown.columns.front().style);
    row.cells.erase(row.cells.begin());
  }
  shown.columns.erase(shown.columns.begin());
  return shown;
}

void choose_columns(PaperTable& table, const ShownColumns& shown) {
  if (!shown.intervals) {
    for (auto& column : table.columns) column.style.interval = false;
  }
  if (shown.columns.empty()) return;
  std::vector<std::string> known;
  for (const auto& column : table.columns) known.push_back(column.style.label);
  std::vector<size_t> chosen;
  for (const auto& name : shown.columns) {
    if (name == table.row_heading) continue;  // always there
    const size_t n_before = chosen.size();
    for (size_t i = 0; i < table.columns.size(); ++i) {
      const auto& column = table.columns[i];
      if (name == column.id || name == column.style.label || name == column_heading(column)) chosen.push_back(i);
    }
    KVC_CHECK(chosen.size() > n_before, "--columns: ", unknown_name("column", name, known));
  }
  const auto pick = [&](auto& all) {
    std::remove_reference_t<decltype(all)> picked;
    for (const size_t i : chosen) picked.push_back(all[i]);
    all = std::move(picked);
  };
  pick(table.columns);
  for (auto& row : table.rows) pick(row.cells);
}

std::string shown_value(const ShownCell& cell, const ColumnStyle& style) {
  if (const auto* real = std::get_if<double>(&cell.value)) return rounded(*real, style.decimals) + cell.mark;
  return text_of(cell.value) + cell.mark;
}

std::string shown_interval(const ShownCell& cell, const ColumnStyle& style) {
  const auto* low = std::get_if<double>(&cell.low);
  const auto* high = std::get_if<double>(&cell.high);
  if (!style.interval || !low || !high) return "";
  return concat(" [", rounded(*low, style.decimals), ", ", rounded(*high, style.decimals), "]");
}

}  // namespace kvc
