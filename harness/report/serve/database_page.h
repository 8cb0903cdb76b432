// docs/database.md: the tables of results/schema.sql with what results/columns.yaml says of them, and results/queries.
#pragma once

#include <string>

namespace kvc {

std::string database_page();  // Markdown

}  // namespace kvc
