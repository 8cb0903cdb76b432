// What a results database holds, without the columns that depend on time or host.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "analysis/query.h"
#include "text/nearest.h"

namespace kvc {

// Seconds, peaks of memory, the heap and what was there to be reused depend on the machine and on what else it did.
inline bool depends_on_the_run(const std::string& column) {
  return column.ends_with("_seconds") || column.starts_with("peak_") || column == "n_reused_tokens" ||
         column == "shared_bytes";
}

inline nlohmann::json to_json(const TableCell& cell) {
  if (std::holds_alternative<std::monostate>(cell)) return nullptr;
  if (const auto* number = std::get_if<int64_t>(&cell)) return *number;
  if (const auto* real = std::get_if<double>(&cell)) return *real;
  return std::get<std::string>(cell);
}

// All tables ordered by primary key, one line a row: two databases of the same work have the same dump, however often
// the work was interrupted.
inline std::string stable_dump(Database& db) {
  std::string dump;
  // Not cell_provenance: hosts. A failed sample that was replaced may leave a text behind that nothing names any more.
  for (const std::string table :
       {"cell", "cell_size", "experiment_cell", "external_result", "kv_bytes", "likelihood", "probe", "sample", "score",
        "search", "search_candidate", "search_layer", "stage", "stage_time", "text"}) {
    std::vector<std::string> columns, primary_key;
    auto info = db.prepare("SELECT name, pk FROM pragma_table_info('" + table + "') ORDER BY pk = 0, pk, cid");
    while (info.step()) {
      if (!depends_on_the_run(info.text(0))) columns.push_back(info.text(0));
      if (info.integer(1) > 0) primary_key.push_back(info.text(0));
    }
    const std::string filter = table == "text" ? " WHERE sha256 IN (SELECT prompt_sha256 FROM sample)" : "";
    const auto stored =
        run_query(db, "SELECT " + join(columns) + " FROM " + table + filter + " ORDER BY " + join(primary_key));
    for (const auto& row : stored.rows) {
      nlohmann::json line = nlohmann::json::array();
      for (const auto& cell : row) line.push_back(to_json(cell));
      dump += table + " " + line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
    }
  }
  return dump;
}

}  // namespace kvc
