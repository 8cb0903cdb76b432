#include <sqlite3.h>

#include <nlohmann/json.hpp>

#include "store/result_store.h"
#include "text/nearest.h"

namespace kvc {
namespace {

// Seconds, peaks of memory and what was there to be reused depend on the machine and on what else it did.
bool depends_on_the_run(const std::string& column) {
  return column.ends_with("_seconds") || column.starts_with("peak_") || column == "n_reused_tokens";
}

struct StableTable {
  std::vector<std::string> columns, primary_key;
};

StableTable stable_columns(Database& db, const std::string& table) {
  StableTable result;
  auto info = db.prepare("SELECT name, pk FROM pragma_table_info('" + table + "') ORDER BY pk = 0, pk, cid");
  while (info.step()) {
    if (!depends_on_the_run(info.text(0))) result.columns.push_back(info.text(0));
    if (info.integer(1) > 0) result.primary_key.push_back(info.text(0));
  }
  return result;
}

nlohmann::json column_value(const Statement& row, int column) {
  switch (row.column_type(column)) {
    case SQLITE_INTEGER:
      return row.integer(column);
    case SQLITE_FLOAT:
      return row.real(column);
    case SQLITE_NULL:
      return nullptr;
    default:
      return row.text(column);
  }
}

}  // namespace

std::string stable_dump(Database& db) {
  std::string dump;
  // Not cell_provenance: hosts. A failed sample that was replaced may leave a text behind that nothing names any more.
  for (const std::string table : {"cell", "experiment_cell", "kv_bytes", "likelihood", "probe", "sample", "score",
                                  "stage", "stage_time", "text"}) {
    const auto stable = stable_columns(db, table);
    const std::string filter = table == "text" ? " WHERE sha256 IN (SELECT prompt_sha256 FROM sample)" : "";
    auto rows = db.prepare("SELECT " + join(stable.columns) + " FROM " + table + filter + " ORDER BY " +
                           join(stable.primary_key));
    while (rows.step()) {
      nlohmann::json line = nlohmann::json::array();
      for (int column = 0; column < rows.n_columns(); ++column) line.push_back(column_value(rows, column));
      dump += table + " " + line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
    }
  }
  return dump;
}

}  // namespace kvc
