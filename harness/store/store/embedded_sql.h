// results/schema.sql and results/tables/*.sql as text inside the program. The definitions are written by CMake.
#pragma once

#include <string_view>
#include <vector>

namespace kvc {

struct EmbeddedSql {
  std::string_view name;  // the file's stem
  std::string_view sql;
};

std::string_view schema_sql();
const std::vector<EmbeddedSql>& embedded_tables();

}  // namespace kvc
