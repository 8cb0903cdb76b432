// A table of results/tables/<paper>/ as a value: rows of cells, each with what it was made of.
#pragma once

#include <string>
#include <vector>

#include "render/table.h"
#include "store/database.h"
#include "tables/layout.h"

namespace kvc {

struct ShownCell {
  enum class Rank { kNone, kBest, kSecond };
  TableCell value;                     // monostate: the database has nothing for it
  TableCell low, high;                 // 95 % interval, or monostate
  TableCell n;                         // questions, prompts, repeats; or monostate
  std::vector<std::string> keys = {};  // of the cells it was made of
  std::string mark = {};               // of a printed figure
  Rank rank = Rank::kNone;
};

struct ShownColumn {
  std::string id;     // "group/column" or "column", as the SQL calls them
  std::string group;  // columns of a group stand together under its name
  ColumnStyle style;  // its label is set
  bool printed = false;
};

struct ShownRow {
  std::string id, group, name;
  std::vector<ShownCell> cells;  // one for each column
};

struct PaperTable {
  std::string name, title, row_heading;
  std::vector<ShownColumn> columns;
  std::vector<ShownRow> rows;
  std::vector<std::string>
      warnings;  // of the caption: quantized weights; a baseline that is missing or not the paper's
  std::vector<std::string> notes;
};

// A table as a paper's is, its first column the names of the rows: to be written as LaTeX or HTML. Notes with commands, in
// backticks, are left out.
PaperTable as_paper_table(const Table& table);

// What of a table is shown.
struct ShownColumns {
  std::vector<std::string> columns;  // by id or label, in this order; {}: all
  bool intervals = true;
};
// Throws Error for a column that is not there, with the nearest.
void choose_columns(PaperTable& table, const ShownColumns& shown);

// Takes the ranks from columns whose rows are not of the same questions, and notes which.
void keep_comparable_ranks(Database& db, PaperTable& table);

// Runs the layout's SQL over the temporary tables of analysis/entries.h and turns its long rows into a table. The SQL
// returns by name: "row", "column", value; where it has them row_group, row_order, column_group, column_order, low,
// high, n, cells (keys with spaces between). Rows and columns stand by their order, then as they came. Throws Error for
// two values of one cell, and for names of columns that are not these.
PaperTable make_paper_table(Database& db, const TableLayout& layout);

// Marks the best and the second best of a column within each group of rows, as they are written, ties together. The
// baseline, rows of compressors that lose nothing (table `entry`) and printed columns take no part.
void rank_cells(Database& db, PaperTable& table, const TableLayout& layout);

// Whether every column that has scores has the baseline's, and whether the paper prints it within the interval.
void check_baseline(PaperTable& table, const TableLayout& layout);

// Adds the printed figures: behind the columns whose model and task are ours, the others at the end.
void add_printed(PaperTable& table, const TableLayout& layout);

// "92.0 [85.0, 95.9]", "1319", "yes"; "" without a value
std::string shown_value(const ShownCell& cell, const ColumnStyle& style);
std::string shown_interval(const ShownCell& cell, const ColumnStyle& style);  // " [85.0, 95.9]" or ""

std::string column_heading(const ShownColumn& column);  // "group: label [unit]"
bool has_row_groups(const PaperTable& table);

std::string write_table(const PaperTable& table, const std::string& format, bool standalone);  // any of these
std::string write_markdown(const PaperTable& table);
std::string write_csv(const PaperTable& table);   // full precision; low, high and n in columns of their own
std::string write_json(const PaperTable& table);  // cells as {value, low, high, n, mark, cells}
// booktabs; `standalone`: a document that compiles alone, else the table for \input
std::string write_latex(const PaperTable& table, bool standalone);
std::string write_html(const PaperTable& table, bool standalone);

// One statement that gives what write_csv gives of a table that is not judged, for those who only run SQL;
// `experiments` are those of its entries. Rows that come to the database later stand below, columns that come later are
// not shown. A table without columns gives its long rows.
std::string write_sql(Database& db, const PaperTable& table, const TableLayout& layout,
                      const std::vector<std::string>& experiments);

// One row a cell of the table and a cell of the database it was made of: what that is, and how many samples it has.
Table trace_table(Database& db, const PaperTable& table);

}  // namespace kvc
