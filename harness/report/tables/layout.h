// How a table of results/tables/<paper>/ is shown: <name>.yaml. What stands in it says the <name>.sql beside it, or the
// file that the layout's key `sql` names.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace kvc {

// How the figures of a column are written.
struct ColumnStyle {
  std::string label;  // "": the column's key
  std::string unit;   // behind the label: "KV size [%]"
  int decimals = 1;
  std::string best;      // high or low: the best is bold, the second underlined; "": neither
  bool interval = true;  // shown where the SQL gives one
};

struct TableLayout {
  std::string name;     // paper:name, or of any experiment's table name alone
  bool is_own = false;  // of any experiment: results/tables/own
  std::filesystem::path sql_file, yaml_file;
  std::string title;
  std::string row_heading;                                  // above the rows' names
  std::vector<std::string> hidden;                          // keys of columns of the SQL that are not shown
  std::vector<std::string> fills;                           // stems of the experiments below configs/papers
  std::map<std::string, ColumnStyle> columns;               // by key
  ColumnStyle values;                                       // of all other columns
  std::vector<std::pair<std::string, std::string>> labels;  // of rows, columns and groups, by key, in their order
  std::vector<std::string> baseline;                        // rows of full precision; none: the table needs no baseline
  std::filesystem::path printed_file;                       // the same table as printed; "": there is none
  std::vector<std::pair<std::string, std::string>> printed;  // its column -> ours: "group/column" or "column"
  std::vector<std::string> notes;
};

// Throws Error file:line:column.
TableLayout load_layout(const std::filesystem::path& yaml_file);

// All papers' tables below `tables_folder` (results/tables), by paper and then by number: gear:2 stands before gear:10.
std::vector<std::string> layout_names(const std::filesystem::path& tables_folder);

// Those of any experiment, in results/tables/own.
std::vector<std::string> own_layout_names(const std::filesystem::path& tables_folder);

// "gear:1", or "tasks" of results/tables/own -> its layout; throws Error with the nearest and the known names.
TableLayout find_layout(const std::filesystem::path& tables_folder, const std::string& name);

}  // namespace kvc
