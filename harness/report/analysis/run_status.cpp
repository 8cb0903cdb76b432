#include "analysis/run_status.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "analysis/query.h"
#include "kvc/check.h"
#include "render/numbers.h"

namespace kvc {
namespace {

// Cells and samples that are done of each experiment; of kinds that have no samples a cell is done that has any row.
constexpr auto kCounts =
    "WITH done AS (SELECT cell_key, sum(status = 'ok') AS n_ok, sum(status = 'failed') AS n_failed FROM sample"
    "  GROUP BY cell_key),"
    " probed AS (SELECT cell_key, count(DISTINCT sample) AS n FROM probe GROUP BY cell_key),"
    " timed AS (SELECT DISTINCT cell_key FROM timing UNION SELECT DISTINCT cell_key FROM capacity),"
    " cells AS (SELECT e.experiment, c.kind,"
    "   CASE WHEN c.kind IN ('eval', 'probe') THEN c.n_samples ELSE 1 END AS n,"
    "   CASE WHEN c.kind = 'eval' THEN ifnull(d.n_ok, 0) WHEN c.kind = 'probe' THEN ifnull(p.n, 0)"
    "    ELSE t.cell_key IS NOT NULL END AS n_ok, ifnull(d.n_failed, 0) AS n_failed"
    "  FROM experiment_cell AS e JOIN cell AS c ON c.key = e.cell_key LEFT JOIN done AS d ON d.cell_key = c.key"
    "  LEFT JOIN probed AS p ON p.cell_key = c.key LEFT JOIN timed AS t ON t.cell_key = c.key)"
    " SELECT experiment, sum(n_ok >= n), sum(n_ok < n AND n_ok + n_failed >= n), sum(n_ok + n_failed < n),"
    "  sum(min(n, n_ok)), sum(n_failed), sum(max(0, n - n_ok - n_failed)) FROM cells GROUP BY experiment ORDER BY 1";

// All live runs of an experiment together: they share its work.
struct Pace {
  double per_hour = 0, seconds_left = 0, since = 0;
  bool is_alive = false, knows_left = false;
};

Pace pace_of(const ExperimentStatus& status, double now) {
  Pace pace;
  for (const auto& run : status.runs) {
    if (!run.is_alive) continue;
    const double seconds = run.seen_at - run.started_at;
    if (seconds > 0) pace.per_hour += 3600 * static_cast<double>(run.n_done) / seconds;
    pace.since = pace.is_alive ? std::min(pace.since, run.started_at) : run.started_at;
    pace.is_alive = true;
    if (!run.seconds_left) continue;
    pace.seconds_left = std::max(pace.seconds_left, *run.seconds_left - (now - run.seen_at));
    pace.knows_left = true;
  }
  return pace;
}

}  // namespace

std::vector<ExperimentStatus> experiment_statuses(Database& db) {
  std::map<std::string, ExperimentStatus> by_name;
  auto select = db.prepare(kCounts);
  while (select.step()) {
    auto& status = by_name[select.text(0)];
    status.n_cells_done = select.integer(1), status.n_cells_failed = select.integer(2);
    status.n_cells_left = select.integer(3);
    status.n_done = select.integer(4), status.n_failed = select.integer(5), status.n_left = select.integer(6);
  }
  for (auto& run : stored_runs(db)) by_name[run.experiment].runs.push_back(run);
  std::vector<ExperimentStatus> all;
  for (auto& [name, status] : by_name) {
    status.database = db.path(), status.experiment = name;
    all.push_back(std::move(status));
  }
  return all;
}

Table status_table(const std::vector<ExperimentStatus>& all, double now) {
  Table table;
  table.columns = {{"database"},
                   {"experiment"},
                   {"cells done", TableColumn::Align::kRight},
                   {"cells failed", TableColumn::Align::kRight},
                   {"cells left", TableColumn::Align::kRight},
                   {"samples done", TableColumn::Align::kRight},
                   {"samples failed", TableColumn::Align::kRight},
                   {"samples left", TableColumn::Align::kRight},
                   {"samples/h", TableColumn::Align::kRight},
                   {"time left", TableColumn::Align::kRight},
                   {"running for", TableColumn::Align::kRight}};
  for (const size_t i : {1, 5, 7, 9}) table.columns[i].rank = TableColumn::Rank::kMain;
  bool any_alive = false;
  for (const auto& s : all) {
    const auto pace = pace_of(s, now);
    any_alive = any_alive || pace.is_alive;
    TableCell per_hour, left, since;
    if (pace.is_alive)
      per_hour = static_cast<int64_t>(std::llround(pace.per_hour)), since = duration_in_words(now - pace.since);
    if (pace.knows_left) left = duration_in_words(pace.seconds_left);
    table.rows.push_back({s.database, s.experiment, s.n_cells_done, s.n_cells_failed, s.n_cells_left, s.n_done,
                          s.n_failed, s.n_left, per_hour, left, since});
    for (const auto& run : s.runs) {
      const auto who = concat(s.experiment, " on ", run.host, ", process ", run.pid);
      const auto seen = duration_in_words(now - run.seen_at);
      if (run.is_alive) {
        table.notes.push_back(concat(who, ": ", run.n_done, " of ", run.n_total, " samples of this run, ",
                                     run.doing.empty() ? "running" : "now: " + run.doing, ", as of ", seen, " ago"));
      } else {
        table.notes.push_back(concat(who, " died, last seen ", seen, " ago; run the same `kvc run` to resume"));
      }
    }
  }
  if (!any_alive) table.notes.push_back("no run is active");
  return table;
}

}  // namespace kvc
