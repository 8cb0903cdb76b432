#include "tables/printed_table.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "kvc/check.h"
#include "render/numbers.h"
#include "text/nearest.h"
#include "text/yaml_read.h"

namespace kvc {
namespace {

constexpr double kRounding = 1e-9;  // of sums of decimal figures in binary

PrintedCell read_cell(const YamlValue& value, const PrintedColumn& column,
                      const std::map<std::string, std::string>& marks) {
  PrintedCell cell;
  cell.text = value.string();
  cell.where = value.where();
  if (column.is_text || cell.text.empty() || cell.text == "/" || cell.text == "N.A.") return cell;
  const size_t sign = cell.text[0] == '-';
  const auto end = cell.text.find_first_not_of("0123456789.", sign);
  const auto number = cell.text.substr(0, end);
  if (end != std::string::npos) cell.mark = cell.text.substr(end);
  const auto point = number.find('.');
  const bool is_number =
      std::count(number.begin(), number.end(), '.') <= 1 && number.find_first_of("0123456789") == sign;
  if (!is_number || (!cell.mark.empty() && !marks.contains(cell.mark))) {
    value.fail(value.name(), " is ", value.found(), ", expected a number, with one of the marks, or N.A., /, ''");
  }
  cell.n_decimals = point == std::string::npos ? 0 : static_cast<int>(number.size() - point - 1);
  cell.value = std::stod(number);
  return cell;
}

void read_mean(const YamlValue& value, std::vector<PrintedColumn>& columns, size_t i) {
  if (value.is_scalar()) {
    value.choice({"all"});
    for (size_t j = 0; j < i; ++j) {
      if (columns[j].mean_of.empty()) columns[i].mean_of.push_back(j);
    }
    return;
  }
  for (const auto& name : value.sequence()) {
    std::vector<std::string> known;
    for (size_t j = 0; j < i; ++j) known.push_back(columns[j].name);
    const auto found = std::find(known.begin(), known.end(), name.string());
    if (found == known.end()) name.fail(unknown_name("column before it", name.string(), known));
    columns[i].mean_of.push_back(static_cast<size_t>(found - known.begin()));
  }
}

std::vector<PrintedColumn> read_columns(const YamlValue& value) {
  std::vector<PrintedColumn> columns;
  for (const auto& [name, settings] : value.map().entries()) {
    columns.push_back({name, 0, {}, false});
    auto map = settings.map();
    columns.back().n_questions = map.optional_integer("questions", 1, 1'000'000, 0);
    columns.back().is_text = map.optional_boolean("text", false);
    if (const auto mean = map.optional("mean_of")) read_mean(*mean, columns, columns.size() - 1);
    map.reject_unknown();
  }
  return columns;
}

// The mean of the figures that are there, if the average is one that can be checked.
void check_average(const PrintedRow& row, const PrintedColumn& column, const PrintedCell& printed,
                   PrintedCheck& check) {
  double sum = 0, unit = 0;
  int64_t n = 0;
  for (const size_t i : column.mean_of) {
    const auto& cell = row.cells[i];
    if (!cell.value) continue;
    sum += *cell.value;
    unit = std::max(unit, std::pow(10, -cell.n_decimals));
    ++n;
  }
  if (n == 0) return;
  ++check.n_averages;
  const double mean = sum / static_cast<double>(n);
  const double allowed = (unit + std::pow(10, -printed.n_decimals)) / 2;
  if (std::abs(mean - *printed.value) <= allowed + kRounding) return;
  check.averages.push_back(
      {row.name, column.name, printed, concat(rounded(mean, printed.n_decimals), " is the mean of ", n, " values")});
}

// k of n answers, as a percentage, rounds to the figure from half a unit below it on, and is cut to it below a whole
// unit above it.
void check_count(const PrintedRow& row, const PrintedColumn& column, const PrintedCell& printed, PrintedCheck& check) {
  ++check.n_counts;
  const double unit = std::pow(10, -printed.n_decimals), n = static_cast<double>(column.n_questions);
  const double least = std::ceil((*printed.value - unit / 2 - kRounding) * n / 100);
  if (least <= n && 100 * least / n < *printed.value + unit - kRounding) return;
  const auto share = [&](double k) {
    return concat(static_cast<int64_t>(k), "/", column.n_questions, " is ",
                  rounded(100 * k / n, printed.n_decimals + 1));
  };
  check.counts.push_back({row.name, column.name, printed, share(least - 1) + ", " + share(least)});
}

void add_findings(Table& table, const PrintedTable& printed, const std::vector<PrintedFinding>& findings,
                  const std::string& what) {
  for (const auto& finding : findings) {
    table.rows.push_back(
        {printed.source, printed.item, finding.row, finding.column, finding.printed.text, what, finding.expected});
  }
}

}  // namespace

PrintedTable load_printed_table(const std::filesystem::path& yaml_file) {
  auto map = load_yaml(yaml_file).map();
  PrintedTable table;
  table.source = map.required_string("source");
  table.item = map.required_string("item");
  if (const auto marks = map.optional("marks")) {
    for (const auto& [mark, meaning] : marks->map().entries()) table.marks[mark] = meaning.string();
  }
  table.columns = read_columns(map.required("columns"));
  for (const auto& [name, figures] : map.required("rows").map().entries()) {
    PrintedRow row{name, {}};
    const auto cells = figures.sequence();
    if (cells.size() != table.columns.size()) {
      figures.fail(figures.name(), " has ", cells.size(), " figures, expected ", table.columns.size());
    }
    for (size_t i = 0; i < cells.size(); ++i) {
      row.cells.push_back(read_cell(cells[i], table.columns[i], table.marks));
    }
    table.rows.push_back(std::move(row));
  }
  map.reject_unknown();
  return table;
}

PrintedCheck check_printed_table(const PrintedTable& table) {
  PrintedCheck check;
  for (const auto& row : table.rows) {
    for (size_t i = 0; i < table.columns.size(); ++i) {
      const auto& column = table.columns[i];
      if (!row.cells[i].value) continue;
      if (!column.mean_of.empty()) check_average(row, column, row.cells[i], check);
      if (column.n_questions > 0) check_count(row, column, row.cells[i], check);
    }
  }
  return check;
}

Table findings_table(const std::vector<PrintedTable>& tables) {
  Table table;
  for (const char* name : {"source", "item", "row", "column"}) table.columns.push_back({name});
  table.columns.push_back({"printed", TableColumn::Align::kRight});
  for (const char* name : {"finding", "expected"}) table.columns.push_back({name});
  for (const auto& printed : tables) {
    const auto check = check_printed_table(printed);
    add_findings(table, printed, check.averages, "not the average");
    add_findings(table, printed, check.counts, "no number of right answers gives it");
    table.notes.push_back(concat(printed.source, ", ", printed.item, ": ", check.averages.size(), " of ",
                                 check.n_averages, " averages do not match the published values; ", check.counts.size(),
                                 " of ", check.n_counts, " accuracies match no number of right answers"));
  }
  return table;
}

}  // namespace kvc
