#include "analysis/entries.h"

#include <sqlite3.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string_view>

#include "analysis/shared_options.h"
#include "kvc/check.h"
#include "text/nearest.h"

namespace kvc {

std::vector<std::string> stored_experiments(Database& db) {
  std::vector<std::string> names;
  auto select = db.prepare(
      "SELECT DISTINCT experiment FROM experiment_cell WHERE experiment NOT LIKE '%@older' ORDER BY experiment");
  while (select.step()) names.push_back(select.text(0));
  return names;
}

std::vector<std::string> stored_methods(Database& db) {
  std::vector<std::string> names;
  auto select =
      db.prepare("SELECT plugin FROM cell WHERE kind = 'eval' GROUP BY plugin ORDER BY max(is_lossy), plugin");
  while (select.step()) names.push_back(select.text(0));
  return names;
}

void check_stored_experiment(Database& db, const std::string& experiment) {
  auto known = stored_experiments(db);
  if (auto older = db.prepare("SELECT 1 FROM experiment_cell WHERE experiment = ? LIMIT 1");
      older.bind(1, experiment).step()) {
    known.push_back(experiment);
  }
  KVC_CHECK(std::ranges::count(known, experiment) > 0, "results database '", db.path(),
            "': ", unknown_name("experiment", experiment, known));
}

std::vector<std::string> make_entries(Database& db, const std::vector<std::string>& experiments, bool with_suspects) {
  db.execute(
      "DROP TABLE IF EXISTS temp.entry; DROP TABLE IF EXISTS temp.chosen;"
      "CREATE TEMP TABLE chosen (experiment TEXT NOT NULL PRIMARY KEY)");
  for (const auto& name : experiments) db.prepare("INSERT OR IGNORE INTO chosen VALUES (?)").bind(1, name).run();
  db.execute(concat("CREATE TEMP TABLE entry AS\n", entries_sql()));
  shorten_labels(db);
  std::vector<std::string> notes;
  auto suspects =
      db.prepare("SELECT DISTINCT label, task, suspect FROM entry WHERE suspect <> '' ORDER BY position, task");
  while (suspects.step()) {
    notes.push_back(concat(with_suspects ? "suspect: " : "left out as suspect: ", suspects.text(0), " on ",
                           suspects.text(1), ": ", suspects.text(2)));
  }
  auto at_floor =
      db.prepare("SELECT DISTINCT task, model, at_floor FROM entry WHERE at_floor <> '' ORDER BY task, model");
  while (at_floor.step()) {
    notes.push_back(concat("left out: ", at_floor.text(0), " on ", at_floor.text(1), ": ", at_floor.text(2)));
  }
  db.execute("DELETE FROM entry WHERE at_floor <> ''");
  if (!with_suspects) db.execute("DELETE FROM entry WHERE suspect <> ''");
  auto failed = db.prepare(
      "SELECT label, task, n_failed, CASE kind WHEN 'probe' THEN n_samples ELSE n_ok + n_failed END"
      " FROM entry WHERE n_failed > 0"
      " ORDER BY position, task");
  while (failed.step()) {
    notes.push_back(concat("failed: ", failed.integer(2), " of ", failed.integer(3), " samples of ", failed.text(0),
                           " on ", failed.text(1)));
  }
  return notes;
}

bool reads_entry(Database& db, const std::string& sql) {
  bool found = false;
  const auto look = [](void* seen, int action, const char* table, const char*, const char*, const char*) {
    if (action == SQLITE_READ && std::string_view(table) == "entry") *static_cast<bool*>(seen) = true;
    return SQLITE_OK;
  };
  const auto stop = [](sqlite3* handle) { sqlite3_set_authorizer(handle, nullptr, nullptr); };
  const std::unique_ptr<sqlite3, decltype(stop)> watched(db.handle(), stop);
  sqlite3_set_authorizer(watched.get(), look, &found);
  db.prepare(sql);
  return found;
}

std::string with_entries(std::string sql, const std::vector<std::string>& experiments) {
  while (sql.starts_with("--")) sql.erase(0, sql.find('\n') + 1);
  const bool has_more = sql.starts_with("WITH");
  std::string names;
  for (const auto& name : std::set<std::string>(experiments.begin(), experiments.end())) {
    names += names.empty() ? "('" : ", ('";
    for (const char c : name) names += std::string(c == '\'' ? 2 : 1, c);
    names += "')";
  }
  if (names.empty()) names = "(NULL)";
  return concat("WITH\n  chosen (experiment) AS (VALUES ", names, "),\n  entry AS MATERIALIZED (SELECT * FROM (\n",
                entries_sql(), ") WHERE suspect = '' AND at_floor = '')", has_more ? "," + sql.substr(4) : "\n" + sql);
}

}  // namespace kvc
