#include "analysis/tails.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "kvc/check.h"
#include "render/numbers.h"
#include "stats/interval.h"

namespace kvc {
namespace {

constexpr double kFewestBeyond = 10;

// Sets those quantiles that have enough tokens beyond them.
void set_quantiles(std::vector<double> values, Tails& tails) {
  constexpr double kShares[] = {0.5, 0.9, 0.99, 0.999};
  std::optional<double>* const all[] = {&tails.median, &tails.p90, &tails.p99, &tails.p999};
  const auto n = static_cast<double>(values.size());
  const auto found = quantiles(std::move(values), kShares);
  for (size_t i = 0; i < found.size(); ++i) {
    if (n * (1 - kShares[i]) >= kFewestBeyond * (1 - 1e-9)) *all[i] = found[i];
  }
}

std::string token_text(const std::string& tokens_json, size_t i) {
  const auto tokens = nlohmann::json::parse(tokens_json, nullptr, false);
  return tokens.is_array() && i < tokens.size() && tokens[i].is_string() ? tokens[i].get<std::string>() : "";
}

// One window's tokens: of the largest so far, where it was.
void add_window(const Statement& row, std::vector<double>& all, Tails& tails) {
  const auto kl = row.floats(3), acceptance = row.floats(4);
  const auto same = row.blob(5).bytes;
  KVC_CHECK(same.size() == kl.size() && acceptance.size() == kl.size(), "token_likelihood: ", kl.size(),
            " divergences, ", same.size(), " predictions");
  for (size_t i = 0; i < kl.size(); ++i) {
    tails.acceptance += acceptance[i];
    tails.n_flips += same[i] == 0;
    all.push_back(kl[i]);
    if (all.size() > 1 && kl[i] <= tails.largest) continue;
    tails.largest = kl[i];
    tails.task = row.text(0);
    tails.sample = row.integer(1);
    tails.position = row.integer(2) + static_cast<int64_t>(i);
    tails.token = token_text(row.text(6), i);
  }
}

constexpr int kDigits = 3;

}  // namespace

const char* const kTailsNote =
    "quantiles and maximum of a token's KL (nats); a quantile is given where at least ten tokens lie beyond it; flips: "
    "tokens whose top-1 prediction differs from full precision; acceptance: mean of sum(min(p, q)), the share of "
    "drafted tokens that speculative decoding would accept";

Tails tails_of(Database& db, const std::vector<std::string>& cell_keys) {
  Tails tails;
  if (!db.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'token_likelihood'").step()) return tails;  // an older file
  auto select = db.prepare(
      "SELECT c.task, t.sample, t.position, t.kl, t.acceptance, t.top1_same, t.tokens_json FROM token_likelihood AS t"
      " JOIN cell AS c ON c.key = t.cell_key"
      " JOIN sample AS s ON s.cell_key = t.cell_key AND s.sample = t.sample AND s.status = 'ok'"
      " WHERE t.cell_key = ? ORDER BY t.sample");
  std::vector<double> all;
  for (const auto& key : cell_keys) {
    select.bind(1, key);
    while (select.step()) add_window(select, all, tails);
    select.reset();
  }
  tails.n_tokens = static_cast<int64_t>(all.size());
  if (all.empty()) return tails;
  tails.acceptance /= static_cast<double>(all.size());
  set_quantiles(std::move(all), tails);
  return tails;
}

std::vector<TableColumn> tail_columns() {
  using enum TableColumn::Align;
  std::vector<TableColumn> columns{{"tokens", kRight}};
  for (const char* name : {"KL median", "p90", "p99", "p99.9", "max"}) columns.push_back({name, kRight, "nats"});
  columns.insert(columns.end(), {{"token of the max"}, {"top-1 flips", kRight}, {"acceptance", kRight, "%", 2}});
  return columns;
}

std::vector<TableCell> tail_cells(const Tails& tails) {
  if (tails.n_tokens == 0) return std::vector<TableCell>(tail_columns().size());
  std::vector<TableCell> cells{tails.n_tokens};
  for (const auto& of : {tails.median, tails.p90, tails.p99, tails.p999})
    cells.push_back(of ? to_digits(*of, kDigits) : TableCell());
  cells.emplace_back(to_digits(tails.largest, kDigits));
  const auto quoted = nlohmann::json(tails.token).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  cells.emplace_back(concat(quoted, " at ", tails.position, ", window ", tails.sample, " of ", tails.task));
  cells.emplace_back(tails.n_flips);
  cells.emplace_back(100 * tails.acceptance);
  return cells;
}

Table tails_table(Database& db, const LikelihoodOptions& options) {
  Table table;
  table.title = "KL divergence token by token";
  table.columns = {{"model"}, {"task"}, {"compressor"}, {"options"}};
  const auto of_tails = tail_columns();
  table.columns.insert(table.columns.end(), of_tails.begin(), of_tails.end());
  for (const auto& stretch : likelihood_stretches(db, options, table.notes)) {
    if (stretch.end >= 0) continue;  // one for each cell
    const auto tails = tails_of(db, {stretch.cell_key});
    if (tails.n_tokens == 0) continue;
    auto& row = table.rows.emplace_back();
    row = {stretch.model_label, stretch.task, stretch.compressor, stretch.options};
    for (auto& cell : tail_cells(tails)) row.push_back(std::move(cell));
  }
  if (!table.rows.empty()) table.notes.emplace_back(kTailsNote);
  return table;
}

}  // namespace kvc
