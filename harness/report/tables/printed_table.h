// Published tables, and their arithmetic consistency: averages that do not match their cells, accuracies that no number
// of right answers gives.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "render/table.h"

namespace kvc {

// One printed figure: "54.89*" is 54.89 with two decimals, marked "*" (what the mark means stands in `marks`).
struct PrintedCell {
  std::string text;
  std::optional<double> value;  // nothing: "", "/", "N.A." or a column of texts
  int n_decimals = 0;
  std::string mark;
  std::string where;  // file:line:column
};

struct PrintedColumn {
  std::string name;
  int64_t n_questions = 0;      // the figures are percentages of so many; 0: unknown
  std::vector<size_t> mean_of;  // the columns whose mean it states; empty: it is no average
  bool is_text = false;         // its cells are no figures
};

struct PrintedRow {
  std::string name;
  std::vector<PrintedCell> cells;  // one for each column
};

struct PrintedTable {
  std::string source, item;  // the paper, "Table 1"
  std::map<std::string, std::string> marks;
  std::vector<PrintedColumn> columns;
  std::vector<PrintedRow> rows;
};

// YAML: source, item, marks: {"*": meaning}, columns: {name: {questions: n} or {mean_of: [names] or all} or
// {text: true} or {}}, rows: {name: [figures]}. Throws Error file:line:column.
PrintedTable load_printed_table(const std::filesystem::path& yaml_file);

struct PrintedFinding {
  std::string row, column;
  PrintedCell printed;
  std::string expected;  // "31.87 is the mean of 9 values", "719/1319 is 54.51, 720/1319 is 54.59"
};

struct PrintedCheck {
  int64_t n_averages = 0, n_counts = 0;  // figures that could be checked
  std::vector<PrintedFinding> averages;  // further from the mean of the printed cells than their rounding allows
  std::vector<PrintedFinding> counts;    // no k/n gives the figure, neither rounded nor cut
};
PrintedCheck check_printed_table(const PrintedTable& table);

// One row a finding, and a note with the counts for each table.
Table findings_table(const std::vector<PrintedTable>& tables);

}  // namespace kvc
