// results/queries/*.sql, built into the program: what `kvc serve` offers beside the tables. The first line says what
// for.
#pragma once

#include <vector>

#include "store/embedded_sql.h"

namespace kvc {

const std::vector<EmbeddedSql>& embedded_queries();

}  // namespace kvc
