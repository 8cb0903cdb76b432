#include "plan/plan_status.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>

#include "kvc/check.h"
#include "plan/run_shard.h"
#include "render/numbers.h"
#include "store/database.h"
#include "text/files.h"
#include "text/message.h"

namespace kvc {
namespace {

namespace fs = std::filesystem;

constexpr double kSilentSeconds = 180;  // after which a shard that has not ended is taken for lost
constexpr int kShownShards = 10;        // whose troubles are told
constexpr size_t kShownLines = 5;       // of a log
constexpr std::streamoff kTailBytes = 4096;

struct CellCounts {
  int64_t n_ok = 0, n_failed = 0;
};

// What a table's row says.
struct Counts {
  int64_t done = 0, running = 0, failed = 0, missing = 0;  // cells
  int64_t samples_done = 0, samples_failed = 0, samples_left = 0;
};

struct ShardView {
  ShardState state;
  bool is_running = false, is_silent = false;
  std::string unreadable;  // its database, and why
  std::map<std::string, CellCounts> cells;
};

std::map<std::string, CellCounts> counts_of(const fs::path& database) {
  std::map<std::string, CellCounts> counts;
  auto db = Database::open(database, Database::Mode::kReadOnly, 1000);
  auto select = db.prepare("SELECT cell_key, sum(status = 'ok'), sum(status <> 'ok') FROM sample GROUP BY cell_key");
  while (select.step()) counts[select.text(0)] = {select.integer(1), select.integer(2)};
  return counts;
}

ShardView view_of(const Plan& plan, size_t shard, double now) {
  ShardView view;
  std::error_code none;
  try {
    if (fs::exists(plan.state_of(shard), none)) {
      view.state = nlohmann::json::parse(read_file(plan.state_of(shard))).get<ShardState>();
    }
    if (fs::exists(plan.database_of(shard), none)) view.cells = counts_of(plan.database_of(shard));
  } catch (const std::exception& e) {
    view.unreadable = one_line(said_by(e));
  }
  const bool is_under_way = view.state.state == "running";
  view.is_silent = is_under_way && now - view.state.seen_at > kSilentSeconds;
  view.is_running = is_under_way && !view.is_silent;
  return view;
}

void count(const PlannedCell& cell, const ShardView& view, Counts& counts) {
  const auto found = view.cells.find(cell.key);
  const auto [n_ok, n_failed] = found == view.cells.end() ? CellCounts{} : found->second;
  const auto left = std::max<int64_t>(0, cell.n_samples - n_ok - n_failed);
  counts.samples_done += std::min(n_ok, cell.n_samples), counts.samples_failed += n_failed, counts.samples_left += left;
  if (n_ok >= cell.n_samples) {
    ++counts.done;
  } else if (left == 0) {
    ++counts.failed;
  } else {
    ++(view.is_running ? counts.running : counts.missing);
  }
}

std::vector<std::string> tail_of(const fs::path& log) {
  std::ifstream file(log, std::ios::binary | std::ios::ate);
  if (!file) return {};
  const std::streamoff size = file.tellg();
  file.seekg(std::max<std::streamoff>(0, size - kTailBytes));
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(in_one_line(line));
  if (lines.size() > kShownLines) lines.erase(lines.begin(), lines.end() - static_cast<long>(kShownLines));
  return lines;
}

// "shard 3 failed on n17: ..., its log ends:", with the lines.
void tell_trouble(const Plan& plan, size_t shard, const ShardView& view, double now, Table& table) {
  const auto& state = view.state;
  if (!view.unreadable.empty()) {
    table.notes.push_back(concat("shard ", shard, " cannot be read: ", view.unreadable));
  } else if (view.is_silent) {
    table.notes.push_back(concat("shard ", shard, " on ", state.host, " has been silent for ",
                                 duration_in_words(now - state.seen_at), ": killed, or its node is gone"));
  } else {
    table.notes.push_back(concat("shard ", shard, " failed on ", state.host, ": ", state.message));
  }
  const auto lines = tail_of(plan.log_of(shard));
  if (!lines.empty()) table.notes.push_back(concat("  the end of ", plan.log_of(shard).string(), ":"));
  for (const auto& line : lines) table.notes.push_back("  | " + line);
}

double pace_of(const ShardState& state) {
  const double seconds = state.seen_at - state.started_at;
  return seconds > 0 ? 3600 * static_cast<double>(state.n_done) / seconds : 0;
}

std::vector<TableCell> row_of(const std::string& name, const Counts& counts, double per_hour) {
  TableCell pace, left;
  if (per_hour > 0) {
    pace = static_cast<int64_t>(std::llround(per_hour));
    left = duration_in_words(3600 * static_cast<double>(counts.samples_left) / per_hour);
  }
  return {name,
          counts.done,
          counts.running,
          counts.failed,
          counts.missing,
          counts.samples_done,
          counts.samples_failed,
          counts.samples_left,
          pace,
          left};
}

Table empty_table() {
  using enum TableColumn::Align;
  Table table;
  table.columns = {{"plan"},
                   {"cells done", kRight},
                   {"running", kRight},
                   {"failed", kRight},
                   {"missing", kRight},
                   {"samples done", kRight},
                   {"samples failed", kRight},
                   {"samples left", kRight},
                   {"samples/h", kRight},
                   {"time left", kRight}};
  return table;
}

}  // namespace

Table plan_status_table(const Plan& plan, double now) {
  auto table = empty_table();
  Counts all;
  std::map<size_t, Counts> by_experiment;
  std::map<std::string, int64_t> shards;  // by state
  double per_hour = 0;
  int n_told = 0, n_in_trouble = 0;
  for (size_t shard = 0; shard < plan.shards.size(); ++shard) {
    const auto view = view_of(plan, shard, now);
    for (const size_t c : plan.shards[shard]) {
      count(plan.cells[c], view, all);
      count(plan.cells[c], view, by_experiment[plan.cells[c].experiment]);
    }
    if (view.is_running) per_hour += pace_of(view.state);
    const bool is_bad = view.is_silent || view.state.state == "failed" || !view.unreadable.empty();
    ++shards[view.is_silent ? "silent" : view.state.state.empty() ? "not begun" : view.state.state];
    if (!is_bad) continue;
    ++n_in_trouble;
    if (n_told++ < kShownShards) tell_trouble(plan, shard, view, now, table);
  }
  table.rows.push_back(row_of(plan.name, all, per_hour));
  if (plan.experiments.size() > 1) {
    for (const auto& [e, counts] : by_experiment) table.rows.push_back(row_of(plan.experiments[e].name, counts, 0));
  }
  if (n_in_trouble > kShownShards) table.notes.push_back(concat(n_in_trouble - kShownShards, " more have problems"));
  std::string words;
  for (const auto& [state, n] : shards) words += concat(words.empty() ? "" : ", ", n, " ", state);
  table.notes.insert(table.notes.begin(), concat(plan.shards.size(), " shards: ", words));
  return table;
}

}  // namespace kvc
