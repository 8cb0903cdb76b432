// What Datasette is told of a results database: titles, descriptions and units of all columns, and queries.
#pragma once

#include <string>
#include <vector>

#include "store/database.h"

namespace kvc {

struct CannedQuery {
  std::string name, title, sql;
  std::string description = {};
};

// As JSON. `name` is what Datasette calls the database: the file's stem; `more`: queries beside the program's own.
// Throws Error for a table or a column of `db` that is not in results/columns.yaml.
std::string datasette_metadata(Database& db, const std::string& name, const std::vector<CannedQuery>& more = {});

}  // namespace kvc
