// `kvc table` of what has a layout, and `kvc tables`.
#pragma once

#include <string>
#include <vector>

#include "serve/metadata.h"
#include "store/database.h"
#include "store/result_store.h"
#include "tables/paper_table.h"

namespace kvc {

struct PaperTableArguments {
  std::string database, name, experiment = "all", format = "markdown";
  bool with_suspects = false, with_external = false, standalone = false, trace = false;
  std::string title;  // "": the table's own
  ShownColumns shown = {};
};

// The names of the tables of any experiment.
std::vector<std::string> own_tables();

// The table as text in the format asked for.
std::string print_paper_table(const PaperTableArguments& arguments);

// The tables of which the database has cells, one below the other, as pieces of a page; "" where there is none.
std::string html_of_filled_tables(const std::string& database, bool with_suspects);

// The tables as statements that any reader of the database can run, each in its shape; where the database has none of a
// table's cells, or what cannot be a table, its long rows, and the description says so.
std::vector<CannedQuery> queries_of_papers(Database& db);

// All tables: their titles, the experiments that fill them and how many of their cells are there. Without a database
// none is.
Table list_paper_tables(const std::string& database, bool all);

// The arithmetic consistency of published tables; names as in `kvc table`, or YAML files; {}: all of results/external.
std::string check_printed_tables(const std::vector<std::string>& names, const std::string& format);

}  // namespace kvc
