#include "analysis/summary.h"

#include <algorithm>
#include <cstdio>
#include <map>

#include "analysis/cell_groups.h"
#include "analysis/query.h"
#include "analysis/weights_note.h"
#include "kvc/check.h"
#include "text/nearest.h"

namespace kvc {
namespace {

// One row of results/tables/summary.sql.
struct CellRow {
  std::string key, model, plugin, options, task, suspect, variant;
  double bits = 0;
  bool is_simulated = false;
  int64_t n_samples = 0, n_ok = 0, n_failed = 0, n_missing = 0;
  double kv_bytes = 0, kv_bytes_fp16 = 0, paper_bytes = 0, peak_kv_bytes = 0, n_new_tokens = 0, decode_seconds = 0;
  std::string accuracy;  // "92.0 [85.0, 95.9]", or "" without scores
  bool is_graded = false;
};

// One row of the table: a compressor with its cells by task.
struct Group {
  std::map<std::string, CellRow> by_task;
  const CellRow& any() const { return by_task.begin()->second; }

  template <class Number>
  Number sum(Number CellRow::*member) const {
    Number total{};
    for (const auto& [task, cell] : by_task) total += cell.*member;
    return total;
  }
};

std::string accuracy_text(const Statement& row, int first_column) {
  if (row.is_null(first_column)) return "";
  char text[64];
  std::snprintf(text, sizeof text, "%.1f [%.1f, %.1f]", row.real(first_column), row.real(first_column + 1),
                row.real(first_column + 2));
  return text;
}

std::vector<CellRow> read_cells(Database& db, const std::string& experiment, const std::set<std::string>& keys) {
  auto select = db.prepare(table_sql("summary"));
  select.bind(1, experiment);
  std::vector<CellRow> cells;
  while (select.step()) {
    CellRow cell;
    cell.model = select.text(0);
    cell.plugin = select.text(1);
    cell.options = select.text(2);
    cell.bits = select.real(3);
    cell.task = select.text(4);
    cell.is_simulated = select.integer(6) != 0;
    cell.suspect = select.text(7);
    cell.n_samples = select.integer(8);
    cell.n_ok = select.integer(9);
    cell.n_failed = select.integer(10);
    cell.n_missing = select.integer(11);
    cell.kv_bytes = select.real(12);
    cell.kv_bytes_fp16 = select.real(13);
    cell.paper_bytes = select.real(14);
    cell.peak_kv_bytes = select.real(15);
    cell.n_new_tokens = select.real(16);
    cell.decode_seconds = select.real(17);
    cell.accuracy = accuracy_text(select, 19);
    cell.variant = select.text(22);
    cell.is_graded = select.integer(24) != 0;
    cell.key = select.text(23);
    if (keys.empty() || keys.contains(cell.key)) cells.push_back(std::move(cell));
  }
  return cells;
}

// Cells of one variant share a row, one for each task; a second cell of the same task starts a row of its own.
std::vector<Group> group_cells(const std::vector<CellRow>& cells) {
  std::vector<Group> groups;
  for (const auto& cell : cells) {
    const auto fits = [&](const Group& group) {
      return group.any().variant == cell.variant && group.any().plugin == cell.plugin &&
             !group.by_task.contains(cell.task);
    };
    auto place = std::find_if(groups.begin(), groups.end(), fits);
    if (place == groups.end()) place = groups.insert(place, Group{});
    place->by_task.emplace(cell.task, cell);
  }
  return groups;
}

// Of what tells rows of one name apart. variant: model, binary, options and settings, a line each.
CellGroup named(const Group& group) {
  const auto& cell = group.any();
  const auto binary = cell.variant.find('\n') + 1, settings = cell.variant.rfind('\n') + 1;
  CellGroup named;
  named.model = cell.model, named.plugin = cell.plugin, named.options = cell.options;
  named.plugin_sha256 = cell.variant.substr(binary, cell.variant.find('\n', binary) - binary);
  named.generation_json = cell.variant.substr(settings);
  return named;
}

std::vector<std::string> distinct(const std::vector<CellRow>& cells, std::string CellRow::*member) {
  std::vector<std::string> values;
  for (const auto& cell : cells) values.push_back(cell.*member);
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

TableCell ratio(double part, double whole, double scale) {  // no value where there is nothing to compare
  if (part <= 0 || whole <= 0) return std::monostate{};
  return scale * part / whole;
}

std::string counts_text(const Group& group) {  // "100", or "100/80" where tasks differ
  std::vector<std::string> counts;
  for (const auto& [task, cell] : group.by_task) counts.push_back(concat(cell.n_ok));
  const bool equal = std::all_of(counts.begin(), counts.end(), [&](const auto& c) { return c == counts[0]; });
  return equal ? counts[0] : join(counts, "/");
}

std::set<std::string> graded_tasks(const std::vector<CellRow>& cells) {
  std::set<std::string> tasks;
  for (const auto& cell : cells) {
    if (cell.is_graded) tasks.insert(cell.task);
  }
  return tasks;
}

std::vector<TableColumn> summary_columns(bool with_model, const std::vector<std::string>& tasks,
                                         const std::set<std::string>& graded) {
  constexpr auto kRight = TableColumn::Align::kRight;
  std::vector<TableColumn> columns;
  if (with_model) columns.push_back({"model"});
  columns.push_back({"compressor"});
  columns.push_back({"options"});
  columns.push_back({"bits", kRight});
  columns.push_back({"KV size", kRight, "%", 1});
  columns.push_back({"KV size in paper", kRight, "%", 1});
  for (const auto& task : tasks) columns.push_back({task, kRight, graded.contains(task) ? "%, bootstrap" : "%"});
  columns.push_back({"n", kRight});
  columns.push_back({"peak KV", kRight, "MiB", 2});
  columns.push_back({"speed", kRight, "tokens/s", 1});
  columns.push_back({"failed", kRight});
  return columns;
}

// apart: what tells it from rows of its name
std::vector<TableCell> summary_row(const Group& group, const std::string& apart, bool with_model,
                                   const std::vector<std::string>& tasks) {
  constexpr double kMiB = 1024.0 * 1024.0;
  const auto& cell = group.any();
  std::vector<TableCell> row;
  if (with_model) row.emplace_back(cell.model);
  row.emplace_back(cell.plugin + (cell.is_simulated ? " (simulated)" : ""));
  row.emplace_back(
      concat(cell.options, cell.options.empty() || apart.empty() ? "" : " ", apart.empty() ? "" : "(" + apart + ")"));
  row.emplace_back(cell.bits);
  row.push_back(ratio(group.sum(&CellRow::kv_bytes), group.sum(&CellRow::kv_bytes_fp16), 100));
  row.push_back(ratio(group.sum(&CellRow::paper_bytes), group.sum(&CellRow::kv_bytes_fp16), 100));
  for (const auto& task : tasks) {
    const auto found = group.by_task.find(task);
    row.emplace_back(found == group.by_task.end() ? std::string() : found->second.accuracy);
  }
  double peak_kv_bytes = 0;
  for (const auto& [task, c] : group.by_task) peak_kv_bytes = std::max(peak_kv_bytes, c.peak_kv_bytes);
  row.emplace_back(counts_text(group));
  row.emplace_back(peak_kv_bytes / kMiB);
  row.push_back(ratio(group.sum(&CellRow::n_new_tokens), group.sum(&CellRow::decode_seconds), 1));
  row.emplace_back(group.sum(&CellRow::n_failed));
  return row;
}

// "kivi bits=2 on demo/swaps"
std::string cell_name(const CellRow& cell) {
  return concat(cell.plugin, cell.options.empty() ? "" : " ", cell.options, " on ", cell.task);
}

std::vector<std::string> summary_notes(const std::vector<CellRow>& shown, const std::vector<CellRow>& suspects,
                                       bool with_suspects) {
  std::vector<std::string> notes;
  for (const auto& cell : suspects) {
    notes.push_back(concat(with_suspects ? "suspect: " : "left out as suspect: ", cell_name(cell), ": ", cell.suspect));
  }
  for (const auto& cell : shown) {
    if (cell.n_missing > 0) {
      notes.push_back(
          concat("not finished: ", cell_name(cell), ": ", cell.n_missing, " of ", cell.n_samples, " missing"));
    }
  }
  if (!graded_tasks(shown).empty()) {
    notes.push_back("bootstrap: BCa 95 % interval (10000 draws, seed 0) where a score is neither 0 nor 1");
  }
  notes.push_back(
      "accuracy with Wilson's 95 % interval; KV size against 16 bits for the same tokens; speed: new tokens "
      "per second of decoding, without prefill");
  return notes;
}

void check_experiment(Database& db, const std::string& experiment) {
  std::vector<std::string> known;
  auto select = db.prepare("SELECT DISTINCT experiment FROM experiment_cell ORDER BY experiment");
  while (select.step()) known.push_back(select.text(0));
  const bool found = experiment == "all" || std::find(known.begin(), known.end(), experiment) != known.end();
  KVC_CHECK(found, "results database '", db.path(), "': ", unknown_name("experiment", experiment, known));
}

}  // namespace

Table summary_table(Database& db, const SummaryOptions& options) {
  check_experiment(db, options.experiment);
  std::vector<CellRow> shown, suspects;
  for (auto& cell : read_cells(db, options.experiment, options.cell_keys)) {
    if (!cell.suspect.empty()) suspects.push_back(cell);
    if (cell.suspect.empty() || options.with_suspects) shown.push_back(std::move(cell));
  }
  const auto models = distinct(shown, &CellRow::model);
  const auto tasks = distinct(shown, &CellRow::task);
  const bool with_model = models.size() > 1;
  Table table;
  table.title = options.experiment == "all" ? "all experiments" : options.experiment;
  if (models.size() == 1) table.title += ", " + models[0];
  const auto keys = distinct(shown, &CellRow::key);
  table.title = with_note(table.title, weights_note(db, {keys.begin(), keys.end()}));
  table.columns = summary_columns(with_model, tasks, graded_tasks(shown));
  const auto groups = group_cells(shown);
  std::vector<CellGroup> names;
  for (const auto& group : groups) names.push_back(named(group));
  for (size_t i = 0; i < groups.size(); ++i) {
    table.rows.push_back(summary_row(groups[i], settings_apart(names, names[i]), with_model, tasks));
  }
  table.notes = summary_notes(shown, suspects, options.with_suspects);
  return table;
}

}  // namespace kvc
