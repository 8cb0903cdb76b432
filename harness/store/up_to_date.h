// Whether a database that is only read has what this program asks for.
#pragma once

#include "store/database.h"

namespace kvc {

bool has_column(Database& db, const std::string& table, const std::string& column);
bool is_up_to_date(Database& db);

// Throws Error where an earlier kvc wrote it, naming what brings it up to date.
void check_up_to_date(Database& db);

}  // namespace kvc
