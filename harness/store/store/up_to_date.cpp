#include "store/up_to_date.h"

namespace kvc {

bool has_column(Database& db, const std::string& table, const std::string& column) {
  auto select = db.prepare("SELECT 1 FROM pragma_table_info(?) WHERE name = ?");
  return select.bind(1, table).bind(2, column).step();
}

// By what was added last: who adds it when a file is opened for writing adds all before it.
bool is_up_to_date(Database& db) {
  return has_column(db, "cell", "scoring_json") && has_column(db, "cell", "formula") &&
         has_column(db, "memory_read", "bytes") && has_column(db, "cell_size", "kv_bytes_engine") &&
         has_column(db, "experiment_cell", "min_baseline");
}

}  // namespace kvc
