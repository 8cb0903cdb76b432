// Which experiments fill a table, and what of them a database lacks.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "experiment/paths.h"
#include "store/database.h"

namespace kvc {

// A file of configs/papers that fills a table.
struct TableFill {
  std::string file;        // below the root
  std::string experiment;  // its name
  bool is_search = false;  // of kind search: it makes no cells
  bool can_run = false;    // its model is here
  std::string error;       // why it cannot be read; else the rest is set
  std::optional<int64_t> limit;
  struct Expected {
    std::string label;  // "": the position tells the compressor
    int64_t position;
    std::string task;  // "": any (a bench's is its shape)
  };
  std::vector<Expected> cells;

  int64_t n_expected() const { return is_search ? 1 : static_cast<int64_t>(cells.size()); }
};

// An experiment's file and those beside it whose names go on with "_", in order of their names; below the root.
std::vector<std::string> files_beside(const std::string& file, const Paths& paths);

// The files configs/papers{,/demo}/<stem>{,_*}.yaml of the layout's stems, in order of their names.
std::vector<TableFill> find_fills(const std::vector<std::string>& stems, const Paths& paths);

// The names of those experiments alone, without their cells: no task's file is read. What cannot be read is left out.
std::vector<std::string> names_of_fills(const std::vector<std::string>& stems, const Paths& paths);

struct FillState {
  int64_t n_expected = 0, n_there = 0;  // cells; of a search one
  std::string command;                  // that fills what is missing; "" where nothing is
};

// Over the temporary tables of analysis/entries.h. A cell is there when it has all samples that were asked for.
FillState fill_state(Database& db, const TableFill& fill);

}  // namespace kvc
