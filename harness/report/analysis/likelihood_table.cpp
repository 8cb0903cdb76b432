#include "analysis/likelihood_table.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>

#include "analysis/interval_text.h"
#include "analysis/window_blocks.h"
#include "kvc/check.h"
#include "stats/clustered.h"
#include "text/nearest.h"

namespace kvc {
namespace {

constexpr int64_t kFirstEnd = 256;

constexpr auto kCells =
    "SELECT c.key, c.model, c.task, c.plugin, c.options, c.suspect, c.kv_bytes, c.kv_bytes_fp16,"
    "  ifnull((SELECT e.label FROM experiment_cell AS e WHERE e.cell_key = c.key AND e.label <> ''"
    "    AND (?1 = 'all' OR e.experiment = ?1) ORDER BY e.experiment LIMIT 1), '') AS label,"
    "  (SELECT min(e.position) FROM experiment_cell AS e WHERE e.cell_key = c.key"
    "    AND (?1 = 'all' OR e.experiment = ?1)) AS position"
    " FROM v_cell AS c WHERE EXISTS (SELECT 1 FROM likelihood AS l WHERE l.cell_key = c.key)"
    "  AND (?1 = 'all' AND c.key NOT IN (SELECT cell_key FROM v_older) OR c.key IN (SELECT cell_key FROM "
    "experiment_cell WHERE experiment = ?1))"
    " ORDER BY c.model, c.task, position, c.is_lossy, c.plugin, c.bits DESC, c.options, c.key";

// The cell of the compressor that another is held against, on the same windows.
constexpr auto kReference =
    "SELECT r.key FROM cell AS c JOIN cell AS r ON r.kind = c.kind AND r.model_json = c.model_json"
    "  AND r.task_json = c.task_json AND r.generation_json = c.generation_json"
    "  AND r.plugin = c.task_json ->> '$.likelihood.reference.plugin'"
    "  AND r.plugin_sha256 = ifnull(c.task_json ->> '$.likelihood.reference.plugin_sha256', r.plugin_sha256)"
    "  AND r.options_json = ifnull(c.task_json -> '$.likelihood.reference.options', r.options_json)"
    " WHERE c.key = ? ORDER BY r.key LIMIT 1";

// Values of blocks, by column; the blocks of one window follow each other.
struct Blocks {
  std::vector<std::vector<double>> values{4};  // nll, kl, n_top1_same, nll above the reference's
  std::vector<double> n_tokens;
  std::vector<size_t> windows;                                   // where a window's blocks begin
  int64_t begin = std::numeric_limits<int64_t>::max(), end = 0;  // of the positions that were scored
  const TextWindow* window = nullptr;
  bool has_reference = true;

  void add(const TextWindow& of, const TextBlock& block, const TextBlock* reference) {
    if (window != &of) windows.push_back(n_tokens.size());
    window = &of;
    n_tokens.push_back(static_cast<double>(block.n_tokens));
    begin = std::min(begin, block.position);
    end = std::max(end, block.position + block.n_tokens);
    const double above = reference ? block.nll - reference->nll : 0;
    const double columns[] = {block.nll, block.kl, static_cast<double>(block.n_top1_same), above};
    for (size_t k = 0; k < values.size(); ++k) values[k].push_back(columns[k]);
    has_reference = has_reference && reference;
  }
};

int64_t end_of(int64_t position, int64_t stretch) {
  if (stretch > 0) return (position / stretch + 1) * stretch;
  int64_t end = kFirstEnd;
  while (end <= position) end *= 2;
  return end;
}

std::optional<Interval> interval_of(const Blocks& blocks, size_t k) {
  constexpr Interval kPossible[] = {{0, kUnbounded}, {0, kUnbounded}, {0, 1}, {-kUnbounded, kUnbounded}};
  const auto& column = blocks.values[k];
  std::vector<Cluster> clusters;
  for (size_t w = 0; w < blocks.windows.size(); ++w) {
    const auto begin = static_cast<std::ptrdiff_t>(blocks.windows[w]);
    const auto end =
        static_cast<std::ptrdiff_t>(w + 1 < blocks.windows.size() ? blocks.windows[w + 1] : blocks.n_tokens.size());
    clusters.push_back({{column.begin() + begin, column.begin() + end},
                        {blocks.n_tokens.begin() + begin, blocks.n_tokens.begin() + end}});
  }
  return interval_of_texts(clusters, kPossible[k]);
}

void estimate(Blocks blocks, LikelihoodStretch& stretch) {
  if (!blocks.has_reference) blocks.values.pop_back();
  double n = 0;
  for (const double n_tokens : blocks.n_tokens) n += n_tokens;
  stretch.n_tokens = static_cast<int64_t>(n);
  stretch.n_blocks = static_cast<int64_t>(blocks.n_tokens.size());
  stretch.n_windows = static_cast<int64_t>(blocks.windows.size());
  if (blocks.has_reference) stretch.error.emplace();
  Estimate* const estimates[] = {&stretch.nll, &stretch.kl, &stretch.top1, stretch.error ? &*stretch.error : nullptr};
  for (size_t k = 0; k < blocks.values.size(); ++k) {
    double sum = 0;
    for (const double value : blocks.values[k]) sum += value;
    *estimates[k] = {sum / n, interval_of(blocks, k)};
  }
}

std::string reference_of(Database& db, const std::string& cell_key) {
  auto select = db.prepare(kReference);
  return select.bind(1, cell_key).step() ? select.text(0) : "";
}

// A cell's blocks by the end of their stretch; 0: all of them. Adds to what is there.
void add_blocks(const TextWindows& windows, const TextWindows& reference, int64_t stretch,
                std::map<int64_t, Blocks>& blocks) {
  for (const auto& [sample, window] : windows) {
    const auto other = reference.find(sample);
    for (const auto& block : window.blocks) {
      const auto* of_reference = other == reference.end() ? nullptr : same_block(other->second, block);
      blocks[end_of(block.position, stretch)].add(window, block, of_reference);
      blocks[0].add(window, block, of_reference);
    }
  }
}

void add_stretches(const LikelihoodStretch& cell, const std::map<int64_t, Blocks>& blocks,
                   std::vector<LikelihoodStretch>& stretches) {
  for (const auto& [end, of] : blocks) {
    if (end == 0) continue;
    stretches.push_back(cell);
    stretches.back().begin = of.begin;
    stretches.back().end = of.end;
    estimate(of, stretches.back());
  }
  if (blocks.empty()) return;
  stretches.push_back(cell);
  stretches.back().end = -1;
  estimate(blocks.at(0), stretches.back());
}

std::string text_of(const Estimate& estimate, const char* format, double (*shown)(double)) {
  return with_interval(estimate.value, estimate.interval, [&](double value) {
    char text[64];
    std::snprintf(text, sizeof text, format, shown(value));
    return std::string(text);
  });
}

double perplexity(double nll) { return std::exp(nll); }
double itself(double value) { return value; }
double percent(double share) { return 100 * share; }

void add_captions(Database& db, const std::vector<LikelihoodStretch>& stretches, Table& table) {
  std::map<std::string, std::string> tasks;  // what is said of each
  auto select = db.prepare(
      "SELECT task_json -> '$.likelihood.prompt_tokens', task_json -> '$.likelihood.block',"
      " task_json ->> '$.likelihood.reference.plugin' FROM cell WHERE key = ?");
  for (const auto& stretch : stretches) {
    if (tasks.contains(stretch.task)) continue;
    select.reset();
    if (!select.bind(1, stretch.cell_key).step()) continue;
    tasks[stretch.task] =
        concat(stretch.task, ": ", select.text(0), " tokens of each text are prefilled, the following ",
               "ones are scored one by one with the compressed cache; reference: ", select.text(2), "; blocks of ",
               select.text(1), " tokens");
  }
  for (const auto& [task, text] : tasks) table.notes.push_back(text);
  table.notes.push_back(
      "KL: of the next-token distribution from the reference's, nats/token; nll error: nll minus the reference's, if "
      "the reference was run; top-1: agreement of the most likely token with the reference");
  table.notes.push_back(
      "brackets: 95 % interval of the mean per token (bootstrap, 10000 draws, seed 0): windows and blocks of "
      "consecutive tokens within them are resampled, at the width of Student's t over windows; there is none for fewer "
      "than 5 windows, which say nothing of other texts");
}

}  // namespace

std::vector<LikelihoodStretch> likelihood_stretches(Database& db, const LikelihoodOptions& options,
                                                    std::vector<std::string>& notes) {
  std::vector<LikelihoodStretch> stretches;
  if (!db.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'likelihood'").step()) return stretches;  // an older file
  auto cells = db.prepare(kCells);
  cells.bind(1, options.experiment);
  while (cells.step()) {
    if (!options.cell_keys.empty() && !options.cell_keys.contains(cells.text(0))) continue;
    LikelihoodStretch cell;
    cell.cell_key = cells.text(0);
    cell.model_label = cells.text(1);
    cell.task = cells.text(2);
    cell.compressor = cells.text(8).empty() ? cells.text(3) : cells.text(8);
    cell.options = cells.text(4);
    cell.kv_share = cells.real(6) / cells.real(7);
    if (const auto suspect = cells.text(5); !suspect.empty()) {
      notes.push_back(concat(options.with_suspects ? "suspect: " : "left out as suspect: ", cell.compressor, " ",
                             cell.options, " on ", cell.task, ": ", suspect));
      if (!options.with_suspects) continue;
    }
    std::map<int64_t, Blocks> blocks;
    const auto windows = text_windows(db, cell.cell_key);
    add_blocks(windows, text_windows(db, reference_of(db, cell.cell_key)), options.stretch, blocks);
    add_stretches(cell, blocks, stretches);
  }
  return stretches;
}

LikelihoodStretch pooled_likelihood(Database& db, const std::vector<std::string>& cell_keys) {
  std::vector<TextWindows> cells;
  for (const auto& key : cell_keys) cells.push_back(text_windows(db, key));
  std::map<int64_t, Blocks> blocks;
  for (const auto& windows : cells) add_blocks(windows, {}, 0, blocks);
  LikelihoodStretch pooled;
  pooled.end = -1;
  if (!blocks.empty()) estimate(blocks.at(0), pooled);
  return pooled;
}

Table likelihood_table(Database& db, const LikelihoodOptions& options) {
  using enum TableColumn::Align;
  Table table;
  table.title = "Likelihood of running text";
  const auto stretches = likelihood_stretches(db, options, table.notes);
  bool many_models = false;
  for (const auto& stretch : stretches) many_models |= stretch.model_label != stretches[0].model_label;
  if (!stretches.empty() && !many_models) table.title += ", " + stretches[0].model_label;
  if (many_models) table.columns.push_back({"model"});
  for (const char* name : {"task", "compressor", "options"}) table.columns.push_back({name});
  for (const char* name : {"position", "tokens", "perplexity"}) table.columns.push_back({name, kRight});
  table.columns.push_back({"KL", kRight, "nats"});
  table.columns.push_back({"nll error", kRight, "nats"});
  table.columns.push_back({"top-1", kRight, "%"});
  table.columns.push_back({"KV size", kRight, "%", 1});
  for (const auto& s : stretches) {
    std::vector<TableCell> row;
    if (many_models) row.emplace_back(s.model_label);
    row.insert(row.end(),
               {s.task, s.compressor, s.options, s.end < 0 ? "all" : concat(s.begin, "-", s.end - 1), s.n_tokens,
                text_of(s.nll, "%.3f", perplexity), text_of(s.kl, "%.3g", itself),
                s.error ? text_of(*s.error, "%.3g", itself) : "", text_of(s.top1, "%.2f", percent), 100 * s.kv_share});
    table.rows.push_back(std::move(row));
  }
  if (!stretches.empty()) add_captions(db, stretches, table);
  return table;
}

}  // namespace kvc
