#include "figure/figure_data.h"

#include <sqlite3.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "analysis/entries.h"
#include "kvc/check.h"
#include "render/numbers.h"
#include "text/nearest.h"

namespace kvc {
namespace {

using Kind = FigureLayout::Kind;

struct Columns {
  int x = -1, panel = -1, series = -1, method = -1, bits = -1;
  std::vector<int> values;  // -1: the query has none
};

std::vector<std::string> value_names(Kind kind) {
  if (kind == Kind::kBox) return {"low", "q1", "median", "q3", "high"};
  if (kind == Kind::kHeat) return {"y", "value"};
  return {"y", "low", "high"};
}

Columns find_columns(const Statement& statement, const std::string& name, Kind kind,
                     const std::vector<std::string>& values) {
  std::vector<std::string> known{"x", "panel", "series", "method", "bits"};
  known.insert(known.end(), values.begin(), values.end());
  std::map<std::string, int> found;
  for (int i = 0; i < statement.n_columns(); ++i) {
    const auto column = statement.column_name(i);
    KVC_CHECK(std::find(known.begin(), known.end(), column) != known.end(), "figure ", name, ": ",
              unknown_name("column of its query", column, known));
    KVC_CHECK(found.emplace(column, i).second, "figure ", name, ": its query has two columns '", column, "'");
  }
  const auto place = [&](const std::string& column, bool required) {
    const auto it = found.find(column);
    KVC_CHECK(it != found.end() || !required, "figure ", name, ": its query has no column '", column, "'");
    return it == found.end() ? -1 : it->second;
  };
  Columns columns{place("x", true),       place("panel", false), place("series", false),
                  place("method", false), place("bits", false),  {}};
  for (const auto& value : values) {
    const bool is_interval = kind != Kind::kBox && (value == "low" || value == "high");
    columns.values.push_back(place(value, !is_interval));
  }
  return columns;
}

size_t index_of(std::vector<std::string>& names, const std::string& name) {
  const auto index = static_cast<size_t>(std::find(names.begin(), names.end(), name) - names.begin());
  if (index == names.size()) names.push_back(name);
  return index;
}

std::optional<double> finite(const Statement& row, int column) {
  if (column < 0 || row.is_null(column)) return std::nullopt;
  const double value = row.real(column);
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

FigureBlock& block_of(FigureData& data, size_t panel, size_t series) {
  for (auto& block : data.blocks) {
    if (block.panel == panel && block.series == series) return block;
  }
  data.blocks.push_back({panel, series, {}});
  return data.blocks.back();
}

bool is_number(const Statement& row, int column) {
  const int type = row.column_type(column);
  return type == SQLITE_INTEGER || type == SQLITE_FLOAT;
}

// Adds a row; texts become categories by the order in which they come.
void add_row(FigureData& data, const Statement& row, const Columns& columns, const std::vector<std::string>& methods,
             const std::string& name) {
  const auto text = [&](int column) { return column < 0 || row.is_null(column) ? std::string() : row.text(column); };
  const size_t panel = index_of(data.panels, text(columns.panel)), series = index_of(data.series, text(columns.series));
  data.categories.resize(data.panels.size());
  data.looks.resize(data.series.size());
  if (const auto method = std::ranges::find(methods, text(columns.method)); method != methods.end()) {
    data.looks[series] = SeriesLook{static_cast<size_t>(method - methods.begin()), finite(row, columns.bits)};
  }
  KVC_CHECK(!row.is_null(columns.x), "figure ", name, ": its query has a row whose x is NULL");
  FigurePoint point;
  point.label = row.text(columns.x);
  auto& categories = data.categories[panel];
  const bool numeric = is_number(row, columns.x);
  const bool is_first =
      std::none_of(data.blocks.begin(), data.blocks.end(), [&](const auto& block) { return block.panel == panel; });
  KVC_CHECK(is_first || numeric == categories.empty(), "figure ", name, ": x is '", point.label,
            "', expected only numbers or only texts");
  point.x = numeric ? row.real(columns.x) : static_cast<double>(index_of(categories, point.label) + 1);
  for (const int column : columns.values) point.values.push_back(finite(row, column));
  auto& points = block_of(data, panel, series).points;
  points.push_back(std::move(point));
}

// low and high of each part: where it begins and ends on those below it.
void stack(FigureData& data) {
  std::map<std::pair<size_t, double>, double> tops;
  for (auto& block : data.blocks) {
    for (auto& point : block.points) {
      double& top = tops[{block.panel, point.x}];
      point.values[1] = top;
      top += point.values[0].value_or(0);
      point.values[2] = top;
    }
  }
}

std::string one_line(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
  std::replace(text.begin(), text.end(), '"', '\'');
  return text;
}

}  // namespace

size_t FigureData::n_points() const {
  size_t n = 0;
  for (const auto& block : blocks) n += block.points.size();
  return n;
}

FigureData read_figure_data(Database& db, const std::string& name, const std::string& sql, const FigureLayout& layout) {
  auto statement = db.prepare(sql);
  KVC_CHECK(statement.is_read_only(), "figure ", name, ": its query writes, expected one SELECT");
  KVC_CHECK(reads_entry(db, sql), "figure ", name, ": its query does not read entry, the table of the cells shown");
  FigureData data;
  data.value_names = value_names(layout.kind);
  const auto columns = find_columns(statement, name, layout.kind, data.value_names);
  const auto methods = stored_methods(db);
  // A point of a scatter plot that its logarithmic axis cannot show takes no name and no room.
  const bool needs_positive = layout.kind == Kind::kScatter && layout.y.is_log;
  while (statement.step()) {
    if (needs_positive && statement.real(columns.values[0]) <= 0) continue;
    add_row(data, statement, columns, methods, name);
  }
  const auto before = [](const auto& a, const auto& b) {
    return std::pair(a.panel, a.series) < std::pair(b.panel, b.series);
  };
  std::sort(data.blocks.begin(), data.blocks.end(), before);
  if (layout.kind == Kind::kStacked) stack(data);
  return data;
}

std::string write_dat(const FigureData& data) {
  std::string text;
  for (size_t i = 0; i < data.blocks.size(); ++i) {
    const auto& block = data.blocks[i];
    if (i > 0) text += "\n\n";
    text += concat("# index ", i, ", panel '", one_line(data.panels[block.panel]), "', series '",
                   one_line(data.series[block.series]), "': x label ", join(data.value_names, " "), "\n");
    for (const auto& point : block.points) {
      text += shortest(point.x) + " \"" + one_line(point.label) + "\"";
      for (const auto& value : point.values) text += " " + (value ? shortest(*value) : "?");
      text += "\n";
    }
  }
  return text;
}

}  // namespace kvc
