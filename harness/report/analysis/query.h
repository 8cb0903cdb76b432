// Tables of results as what SQL returns.
#pragma once

#include <string>
#include <vector>

#include "render/table.h"
#include "store/database.h"

namespace kvc {

// What one SQL statement returns. Statements that would write are refused; so is more than one statement.
Table run_query(Database& db, const std::string& sql);

// A table of results/tables as it is, of an experiment's cells ("all": of every cell).
Table named_table(Database& db, const std::string& name, const std::string& experiment);

// What a statement returns whose first parameter is an experiment, as in results/tables.
Table experiment_query(Database& db, const std::string& sql, const std::string& experiment);

// The tables of results/tables, built into the program: their names, and the SQL of one.
std::vector<std::string> table_names();
std::string table_sql(const std::string& name);  // throws Error naming the known ones

}  // namespace kvc
