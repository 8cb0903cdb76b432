// Whether a database that is only read has what this program asks for.
#pragma once

#include "store/database.h"

namespace kvc {

bool has_column(Database& db, const std::string& table, const std::string& column);
bool is_up_to_date(Database& db);
// Whether the file's own views are the schema's. Who reads it without this program reads those.
bool has_current_views(Database& db);

// An empty database of the schema, in memory.
Database schema_in_memory();

}  // namespace kvc
