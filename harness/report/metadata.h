// What Datasette is told of a results database: titles, descriptions and units of all columns, and queries.
#pragma once

#include <string>

#include "store/database.h"

namespace kvc {

// As JSON. `name` is what Datasette calls the database: the file's stem. Throws Error for a table or a column of `db`
// that is not in results/columns.yaml.
std::string datasette_metadata(Database& db, const std::string& name);

}  // namespace kvc
