#include "analysis/summary.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>

#include "analysis/answer_notes.h"
#include "analysis/cell_groups.h"
#include "analysis/definition_change.h"
#include "analysis/entries.h"
#include "analysis/interval_text.h"
#include "analysis/query.h"
#include "analysis/rows_of.h"
#include "analysis/summary_rows.h"
#include "analysis/weights_note.h"
#include "kvc/check.h"
#include "render/numbers.h"
#include "render/terminal.h"
#include "text/nearest.h"

namespace kvc {
namespace {

// One row of the table: a compressor with its cells by task.
struct Group {
  std::map<std::string, SummaryRow> by_task;
  const SummaryRow& any() const { return by_task.begin()->second; }

  template <class Number>
  Number sum(Number SummaryRow::*member) const {
    Number total{};
    for (const auto& [task, cell] : by_task) total += cell.*member;
    return total;
  }
};

// "92.0 [85.0, 95.9]", or "" without scores
std::string score_text(const SummaryRow& cell) {
  if (!cell.has_score) return "";
  return with_interval(cell.score, cell.interval, [](double value) { return rounded(value, 1); });
}

std::vector<Group> group_cells(const std::vector<SummaryRow>& cells) {
  std::vector<Group> groups;
  for (const auto& row : rows_of(cells)) {
    auto& group = groups.emplace_back();
    for (const size_t i : row) group.by_task.emplace(cells[i].task, cells[i]);
  }
  return groups;
}

// Of what tells rows of one name apart.
CellGroup named(const Group& group) {
  const auto& cell = group.any();
  const auto binary = cell.variant.find('\n') + 1, settings = cell.variant.rfind('\n') + 1;
  CellGroup named;
  named.model_label = cell.model_label, named.plugin = cell.plugin, named.options = cell.options;
  named.plugin_sha256 = cell.variant.substr(binary, cell.variant.find('\n', binary) - binary);
  named.settings_json = cell.variant.substr(settings);
  for (const auto& [task, c] : group.by_task) named.add_frame(task, c.chat);
  return named;
}

std::vector<std::string> distinct(const std::vector<SummaryRow>& cells, std::string SummaryRow::*member) {
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

// Of what the cells of a group have alike.
template <class Of>
auto first_of(const Group& group, Of of) -> decltype(of(group.any())) {
  for (const auto& [task, cell] : group.by_task) {
    if (const auto value = of(cell)) return value;
  }
  return {};
}

TableCell cell_of(const std::optional<double>& value) { return value ? TableCell(*value) : TableCell(); }

// The share of K and V that is encoded, over all samples of all tasks.
TableCell encoded_percent(const Group& group) {
  double n_encoded = 0;
  for (const auto& [task, cell] : group.by_task) {
    if (cell.kv_bytes_fp16 <= 0) continue;
    if (!cell.n_encoded_numbers) return std::monostate{};
    n_encoded += *cell.n_encoded_numbers;
  }
  const double fp16 = group.sum(&SummaryRow::kv_bytes_fp16);
  return fp16 > 0 ? TableCell(200 * n_encoded / fp16) : TableCell();
}

std::set<int64_t> size_lengths(const std::vector<SummaryRow>& cells) {
  std::set<int64_t> lengths;
  for (const auto& cell : cells) {
    for (const auto& [n_tokens, percent] : cell.size_percent) lengths.insert(n_tokens);
  }
  return lengths;
}

std::string length_name(int64_t n_tokens) {
  return n_tokens % 1024 == 0 ? concat("at ", n_tokens / 1024, "K") : concat("at ", n_tokens);
}

std::string counts_text(const Group& group) {  // "100", or "100/80" where tasks differ
  std::vector<std::string> counts;
  for (const auto& [task, cell] : group.by_task) counts.push_back(concat(cell.n_ok));
  const bool equal = std::all_of(counts.begin(), counts.end(), [&](const auto& c) { return c == counts[0]; });
  return equal ? counts[0] : join(counts, "/");
}

// What a task's column shows, where it is no accuracy.
std::map<std::string, std::string> units_of(const std::vector<SummaryRow>& cells) {
  std::map<std::string, std::string> units;
  for (const auto& cell : cells) {
    if (cell.measure == "score") units[cell.task] = "%, bootstrap";
    if (cell.measure == "top-1") units[cell.task] = "%, top-1";
  }
  return units;
}

bool any_measure(const std::vector<SummaryRow>& cells, const std::string& measure) {
  return std::ranges::any_of(cells, [&](const auto& cell) { return cell.measure == measure; });
}

bool any_answers(const std::vector<SummaryRow>& cells) {
  return std::any_of(cells.begin(), cells.end(), [](const auto& cell) { return cell.n_answers > 0; });
}

// Mean length, and the share that a limit ended.
void add_answers(const Group& group, std::vector<TableCell>& row) {
  const double n = group.sum(&SummaryRow::n_answers);
  row.push_back(n > 0 ? TableCell(group.sum(&SummaryRow::n_answer_tokens) / n) : TableCell());
  for (const auto part : {&SummaryRow::n_at_limit, &SummaryRow::n_in_loop}) {
    row.push_back(n > 0 ? TableCell(100 * group.sum(part) / n) : TableCell());
  }
}

std::vector<TableColumn> summary_columns(bool with_model, bool with_answers, const std::vector<std::string>& tasks,
                                         const std::map<std::string, std::string>& units,
                                         const std::set<int64_t>& lengths) {
  constexpr auto kRight = TableColumn::Align::kRight;
  using Rank = TableColumn::Rank;
  std::vector<TableColumn> columns;
  if (with_model) columns.push_back({"model"});
  columns.push_back({"compressor"});
  columns.push_back({"options"});
  columns.push_back({"bits", kRight, "", -1, Rank::kDetail});
  columns.push_back({"bits/value", kRight, "", 2, Rank::kDetail});
  columns.push_back({"compressed", kRight, "%", 1, Rank::kDetail});
  columns.push_back({"KV size", kRight, "%", 1, Rank::kMain});
  for (const int64_t n_tokens : lengths) columns.push_back({length_name(n_tokens), kRight, "%", 1, Rank::kDetail});
  columns.push_back({"published formula", kRight, "%", 1, Rank::kDetail});
  columns.push_back({"formula", TableColumn::Align::kLeft, "", -1, Rank::kDetail});
  for (const auto& task : tasks) {
    const auto unit = units.find(task);
    columns.push_back({task, kRight, unit == units.end() ? "%" : unit->second, -1, Rank::kMain});
  }
  columns.push_back({"n", kRight});
  if (with_answers) {
    columns.push_back({"answer", kRight, "tokens", 1, Rank::kDetail});
    columns.push_back({"at limit", kRight, "%", 1, Rank::kDetail});
    columns.push_back({"in a loop", kRight, "%", 1, Rank::kDetail});
  }
  columns.push_back({"peak KV", kRight, "MiB", 2, Rank::kDetail});
  columns.push_back({"speed", kRight, "tokens/s", 1});
  columns.push_back({"failed", kRight});
  return columns;
}

// apart: what tells it from rows of its name
std::vector<TableCell> summary_row(const Group& group, const std::string& apart, bool with_model, bool with_answers,
                                   const std::vector<std::string>& tasks, const std::set<int64_t>& lengths) {
  constexpr double kMiB = 1024.0 * 1024.0;
  const auto& cell = group.any();
  std::vector<TableCell> row;
  if (with_model) row.emplace_back(cell.model_label);
  row.emplace_back((cell.label.empty() ? cell.plugin : cell.label) + (cell.is_simulated ? " (simulated)" : ""));
  row.emplace_back(
      concat(cell.options, cell.options.empty() || apart.empty() ? "" : " ", apart.empty() ? "" : "(" + apart + ")"));
  row.emplace_back(cell.bits);
  row.push_back(cell_of(first_of(group, [](const auto& c) { return c.bits_per_number; })));
  row.push_back(encoded_percent(group));
  row.push_back(ratio(group.sum(&SummaryRow::kv_bytes), group.sum(&SummaryRow::kv_bytes_fp16), 100));
  for (const int64_t n_tokens : lengths) {
    row.push_back(cell_of(first_of(group, [&](const auto& c) {
      const auto found = c.size_percent.find(n_tokens);
      return found == c.size_percent.end() ? std::nullopt : std::optional(found->second);
    })));
  }
  const auto by_formula = ratio(group.sum(&SummaryRow::paper_bytes), group.sum(&SummaryRow::kv_bytes_fp16), 100);
  row.push_back(by_formula);
  row.emplace_back(std::holds_alternative<double>(by_formula) ? cell.formula : "");
  for (const auto& task : tasks) {
    const auto found = group.by_task.find(task);
    row.emplace_back(found == group.by_task.end() ? std::string() : score_text(found->second));
  }
  double peak_kv_bytes = 0;
  for (const auto& [task, c] : group.by_task) peak_kv_bytes = std::max(peak_kv_bytes, c.peak_kv_bytes);
  row.emplace_back(counts_text(group));
  if (with_answers) add_answers(group, row);
  row.emplace_back(peak_kv_bytes / kMiB);
  row.push_back(ratio(group.sum(&SummaryRow::n_new_tokens), group.sum(&SummaryRow::decode_seconds), 1));
  row.emplace_back(group.sum(&SummaryRow::n_failed));
  return row;
}

// "kivi bits=2 on demo/swaps"
std::string cell_name(const SummaryRow& cell) {
  return concat(cell.plugin, cell.options.empty() ? "" : " ", cell.options, " on ", cell.task);
}

std::vector<std::string> summary_notes(Database& db, const std::vector<SummaryRow>& shown,
                                       const std::vector<SummaryRow>& suspects, bool with_suspects) {
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
  for (const auto& cell : shown) {
    if (!cell.is_lossy || !cell.suspect.empty() || cell.n_not_encoded == 0) continue;
    notes.push_back(concat("short prompts: ", cell_name(cell), ": ", cell.n_not_encoded, " of ", cell.n_ok,
                           " samples fit into the uncompressed tokens, so none of their tokens was compressed"));
  }
  if (any_measure(shown, "score")) {
    notes.push_back("bootstrap: BCa 95 % interval (10000 draws, seed 0) where a score is neither 0 nor 1");
  }
  if (any_measure(shown, "top-1")) {
    notes.push_back(
        "top-1: tokens whose most likely one is the reference's; the interval resamples windows of text and blocks of "
        "tokens within them, none for fewer than 5 windows");
  }
  if (any_answers(shown)) {
    std::set<std::string> keys;
    for (const auto& cell : shown) keys.insert(cell.key);
    for (auto& note : answer_notes(db, keys)) notes.push_back(std::move(note));
    notes.push_back(
        "answer: mean generated length over all tasks; at limit: generations cut by the limit of new tokens or the "
        "context; in a loop: generations whose last tokens repeat three times or more");
  }
  notes.push_back(
      "accuracy with Wilson's 95 % interval; KV size: measured, relative to the same tokens at 16 bits, at the "
      "samples' own lengths and for synthetic prompts; bits/value: bits per compressed value, excluding the "
      "uncompressed recent window, at the longest prompt; speed: decoded tokens per second, without prefill");
  return notes;
}

std::vector<SummaryRow> shown_cells(Database& db, const SummaryOptions& options, std::vector<SummaryRow>& suspects) {
  std::vector<SummaryRow> shown;
  for (auto& cell : read_summary(db, options.experiment)) {
    if (!options.cell_keys.empty() && !options.cell_keys.contains(cell.key)) continue;
    if (!cell.suspect.empty()) suspects.push_back(cell);
    if (cell.suspect.empty() || options.with_suspects) shown.push_back(std::move(cell));
  }
  return shown;
}

}  // namespace

std::string plot_of_summary(Database& db, const SummaryOptions& options, size_t width) {
  if (width == 0) return "";
  std::vector<SummaryRow> suspects;
  auto shown = shown_cells(db, options, suspects);
  const bool is_text = !any_measure(shown, "accuracy") && !any_measure(shown, "score");
  if (!is_text) std::erase_if(shown, [](const auto& cell) { return cell.measure == "top-1"; });
  const auto tasks = distinct(shown, &SummaryRow::task);
  std::vector<PlotPoint> points;
  if (distinct(shown, &SummaryRow::model_label).size() != 1) return "";
  for (const auto& group : group_cells(shown)) {
    const double fp16 = group.sum(&SummaryRow::kv_bytes_fp16);
    const bool is_whole = std::all_of(group.by_task.begin(), group.by_task.end(),
                                      [](auto& c) { return c.second.has_score && c.second.n_missing == 0; });
    if (!is_whole || group.by_task.size() != tasks.size() || fp16 <= 0) continue;
    const auto& cell = group.any();
    const auto name =
        cell.label.empty() ? concat(cell.plugin, cell.options.empty() ? "" : " ", cell.options) : cell.label;
    points.push_back({name, 100 * group.sum(&SummaryRow::kv_bytes) / fp16,
                      group.sum(&SummaryRow::score) / static_cast<double>(tasks.size())});
  }
  const auto plot = text_plot(points, "measured KV size [% of 16 bits]",
                              concat(is_text            ? "top-1 agreement, "
                                     : tasks.size() > 1 ? "score, "
                                                        : "",
                                     tasks.size() == 1 ? tasks[0] : "mean over tasks", " [%]"),
                              width);
  return plot.empty() ? "" : "\n" + plot;
}

Table summary_table(Database& db, const SummaryOptions& options) {
  if (options.experiment != "all") check_stored_experiment(db, options.experiment);
  std::vector<SummaryRow> suspects;
  const auto shown = shown_cells(db, options, suspects);
  const auto models = distinct(shown, &SummaryRow::model_label);
  const auto tasks = distinct(shown, &SummaryRow::task);
  const bool with_model = models.size() > 1;
  Table table;
  table.title = options.experiment == "all" ? "Scores, sizes and speed" : options.experiment;
  if (models.size() == 1) table.title += ", " + models[0];
  const auto keys = distinct(shown, &SummaryRow::key);
  table.title = with_note(table.title, weights_note(db, {keys.begin(), keys.end()}));
  const auto lengths = size_lengths(shown);
  const bool with_answers = any_answers(shown);
  table.columns = summary_columns(with_model, with_answers, tasks, units_of(shown), lengths);
  const auto groups = group_cells(shown);
  std::vector<CellGroup> names;
  for (const auto& group : groups) names.push_back(named(group));
  for (size_t i = 0; i < groups.size(); ++i) {
    table.rows.push_back(
        summary_row(groups[i], settings_apart(names, names[i]), with_model, with_answers, tasks, lengths));
    if (groups[i].sum(&SummaryRow::n_failed) > 0) table.tones[{i, table.columns.size() - 1}] = TableTone::kBad;
  }
  const size_t compressor = with_model ? 1 : 0;
  std::set<TableCell> names_shown;
  for (const auto& row : table.rows) names_shown.insert(row[compressor]);
  if (names_shown.size() < table.rows.size()) table.columns[compressor + 1].rank = TableColumn::Rank::kMain;  // options
  table.notes = summary_notes(db, shown, suspects, options.with_suspects);
  if (const auto older = older_note(db, options.experiment); !older.empty()) table.notes.push_back(older);
  if (const auto frames = frames_note(names); !frames.empty()) table.notes.insert(table.notes.begin(), frames);
  return table;
}

}  // namespace kvc
