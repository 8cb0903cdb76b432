#include "merge/table_merge.h"

#include <algorithm>

#include "kvc/check.h"
#include "text/nearest.h"

namespace kvc {
namespace {

// Times, peaks of memory and what was there to be reused are the machine's and the moment's; names in tables are
// people's; n_samples grows; why something failed is said in the words of the day.
bool may_differ(const std::string& table, const std::string& column) {
  return column.ends_with("_seconds") || column.starts_with("peak_") || column == "n_reused_tokens" ||
         column == "shared_bytes" || column == "error" ||
         (table == "cell" && (column == "n_samples" || column == "options_label"));
}

bool has(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// The beginning of a row of temp.found, of the row `r`: table, cell, sample, the rest of the key.
std::string place_of(const TableColumns& table, const std::string& r) {
  const auto cell = table.name == "cell" ? r + ".key" : has(table.key, "cell_key") ? r + ".cell_key" : "''";
  const auto sample = has(table.key, "sample") ? r + ".sample" : "-1";
  std::vector<std::string> rest;
  for (const auto& column : table.key) {
    if (column == "cell_key" || column == "sample" || table.name == "cell") continue;
    rest.push_back(concat("'", column, "', ", r, ".", column));
  }
  return concat("'", table.name, "', ", cell, ", ", sample, ", ",
                rest.empty() ? "''" : "json_object(" + join(rest) + ")");
}

std::string whole_row(const TableColumns& table, const std::string& r) {
  std::vector<std::string> parts;
  for (const auto& column : table.compared) parts.push_back(concat("'", column, "', ", r, ".", column));
  return "json_object(" + join(parts) + ")";
}

}  // namespace

TableColumns columns_of_table(Database& db, const std::string& table, Compared compared) {
  TableColumns columns{table, {}, {}, {}};
  auto info = db.prepare("SELECT name, pk FROM pragma_table_info(?, 'main') ORDER BY pk = 0, pk, cid");
  info.bind(1, table);
  while (info.step()) {
    const auto name = info.text(0);
    columns.all.push_back(name);
    if (info.integer(1) > 0) {
      columns.key.push_back(name);
    } else if (compared == Compared::kYes && !may_differ(table, name)) {
      columns.compared.push_back(name);
    }
  }
  return columns;
}

std::string same_key(const TableColumns& table) {
  std::string equal;
  for (const auto& column : table.key) equal += concat(equal.empty() ? "" : " AND ", "m.", column, " = s.", column);
  return equal;
}

void find_differences(Database& db, const TableColumns& table, const std::string& pairs) {
  if (table.compared.empty()) return;
  std::string any;
  for (const auto& c : table.compared) any += concat(any.empty() ? "" : " OR ", "m.", c, " IS NOT s.", c);
  if (!db.prepare("SELECT 1 " + pairs + " AND (" + any + ") LIMIT 1").step()) return;
  for (const auto& column : table.compared) {
    const auto m = "m." + column, s = "s." + column;
    db.execute(concat("INSERT INTO temp.found SELECT ", place_of(table, "s"), ", '", column, "', quote(", m,
                      "), quote(", s, ") ", pairs, " AND ", m, " IS NOT ", s));
  }
}

void compare_rows_of_samples(Database& db, const TableColumns& table) {
  find_differences(
      db, table,
      concat("FROM temp.both AS b CROSS JOIN shard.", table.name, " AS s ON s.cell_key = b.cell_key AND ",
             "s.sample = b.sample CROSS JOIN main.", table.name, " AS m ON ", same_key(table), " WHERE true"));
  const auto lacking = [&](const std::string& there, const std::string& lacks, const char* r, const char* other,
                           const std::string& sides) {
    db.execute(concat("INSERT INTO temp.found SELECT ", place_of(table, r), ", '', ", sides,
                      " FROM temp.both AS b CROSS JOIN ", there, ".", table.name, " AS ", r, " ON ", r,
                      ".cell_key = b.cell_key AND ", r, ".sample = b.sample LEFT JOIN ", lacks, ".", table.name, " AS ",
                      other, " ON ", same_key(table), " WHERE ", other, ".cell_key IS NULL"));
  };
  lacking("shard", "main", "s", "m", "'NULL', " + whole_row(table, "s"));
  lacking("main", "shard", "m", "s", whole_row(table, "m") + ", 'NULL'");
}

}  // namespace kvc
