#include "check/check_tables.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <tuple>

#include "analysis/entries.h"
#include "analysis/interval_text.h"
#include "kvc/check.h"
#include "render/numbers.h"
#include "stats/clustered.h"

namespace kvc {
namespace {

using enum TableColumn::Align;

constexpr auto kOutliersNote =
    "where one scale spans several channels of K, outlier channels take up its range: this is what breaks methods that "
    "quantize K per token";

constexpr auto kNotCompressed = "not compressed", kDecidedBy = "decided by";

std::string estimate_text(const Estimate& estimate, const char* format, double scale) {
  return with_interval(estimate.value, estimate.interval, [&](double value) {
    char text[32];
    std::snprintf(text, sizeof text, format, scale * value);
    return std::string(text);
  });
}

std::string kl_text(const LikelihoodStretch& of) { return of.n_blocks ? estimate_text(of.kl, "%.3g", 1) : ""; }
std::string top1_text(const LikelihoodStretch& of) { return of.n_blocks ? estimate_text(of.top1, "%.1f", 100) : ""; }
std::string passkey_text(const PasskeyResult& of) { return of.n ? concat(of.n_right, " of ", of.n) : ""; }

std::string bounds_note(const CheckSettings& s) {
  char bounds[400];
  std::snprintf(bounds, sizeof bounds,
                "verdict: KL with its whole 95 %% interval up to %g nats is unchanged, from %g on it breaks; KL at the "
                "longest length, top-1 whose whole interval lies below %g %% (or %g %%: breaks) and lost passkeys (%g "
                "points: breaks) can make it worse",
                s.kl.unchanged, s.kl.breaks, 100 - 100 * s.top1.unchanged, 100 - 100 * s.top1.breaks,
                100 * s.passkey.breaks);
  return bounds;
}

// The bits of a preset whose other options are `rest`; 0: it has none.
int64_t bits_of(const PresetResult& preset, nlohmann::json& rest) {
  rest = nlohmann::json::parse(preset.options_json, nullptr, false);
  if (!rest.is_object() || !rest.contains("bits") || !rest["bits"].is_number_integer()) return 0;
  const auto bits = rest["bits"].get<int64_t>();
  rest.erase("bits");
  return bits;
}

// One method that loses more with more bits: real where outlier channels rule the error, and looks like a bug.
void add_more_bits_notes(const ModelFindings& found, Table& table) {
  for (const auto& more : found.presets) {
    for (const auto& less : found.presets) {
      nlohmann::json rest, other_rest;
      const auto bits = bits_of(more, rest), fewer = bits_of(less, other_rest);
      const bool is_pair = fewer > 0 && bits > fewer && more.plugin == less.plugin && rest == other_rest;
      const bool loses = more.all.kl.value > std::max(less.all.kl.value, found.settings.kl.unchanged);
      if (!is_pair || !loses) continue;
      auto note = concat(more.name, " loses more than ", less.name, " (KL ", kl_text(more.all), " and ",
                         kl_text(less.all), ")");
      if (found.keys.n_outliers > 0) {
        note +=
            ": keys of this model have outlier channels; where a rotation or a scale spreads one over the other "
            "channels, its error is added to all of them, and depends on where the levels fall more than on their "
            "number. `centered` subtracts the channels' means first";
      }
      table.notes.push_back(std::move(note));
    }
  }
}

void add_notes(const ModelFindings& found, Table& table) {
  const auto& s = found.settings;
  const auto& keys = found.keys;
  table.notes.push_back(bounds_note(s));
  table.notes.push_back(
      concat("KL (nats/token) and top-1 agreement with full precision on ", found.presets.front().all.n_tokens,
             " tokens of ", found.presets.front().all.n_windows,
             " windows of text, which share none, each scored with the compressed cache after a long prompt; brackets: "
             "95 % interval, windows and blocks of tokens within them resampled; none for fewer than ",
             kFewestClusters, " windows"));
  if (found.n_looks > 1) {
    table.notes.push_back(concat("text was added ", found.n_looks - 1,
                                 " times because verdicts were open: an interval that is looked at repeatedly excludes "
                                 "the truth more often than in 5 % of checks"));
  }
  if (found.prefill.chunk > 0) {
    table.notes.push_back(
        concat("prompts in chunks of ", found.prefill.chunk,
               found.prefill.through_all
                   ? " tokens, which attend to themselves and to earlier chunks through the cache"
                   : " tokens, which attend to earlier chunks through the cache and exactly to themselves"));
  }
  table.notes.push_back("passkey: right answers; a sample this small can show a loss, but cannot rule one out");
  if (keys.n_channels == 0) return;
  char facts[300];
  std::snprintf(facts, sizeof facts,
                "keys of this model on this text: the largest channel is %.0f times its layer's median channel "
                "(layer %ld, channel %ld); %ld of %ld channels are above %g times; K biases: %s; norms of Q and "
                "K: %s",
                keys.largest_ratio, keys.layer, keys.channel, keys.n_outliers, keys.n_channels, s.outlier_channel,
                found.config.qkv_bias ? "yes" : "no",
                found.config.architecture->head_norms != HeadNorms::none ? "yes" : "no");
  table.notes.push_back(facts);
  if (keys.n_outliers > 0) table.notes.push_back(kOutliersNote);
  add_more_bits_notes(found, table);
}

std::string state_of(const PresetResult& preset) {
  if (!preset.refused.empty()) return "refused";
  if (preset.n_failed > 0) return "failed";
  return preset.is_baseline ? "(baseline)" : to_string(preset.verdict);
}

// "; about 3400 tokens of text would decide" of an open verdict.
std::string needed_text(const PresetResult& preset) {
  constexpr double kMost = 1e6;
  if (preset.n_tokens_needed == 0) return "";
  if (preset.n_tokens_needed > kMost) return "; over a million tokens of text would decide";
  const double step = std::pow(10.0, std::floor(std::log10(preset.n_tokens_needed)) - 1);
  return concat("; about ", static_cast<int64_t>(std::ceil(preset.n_tokens_needed / step) * step),
                " tokens of text would decide");
}

// Colours what is decided.
void set_tone(const PresetResult& preset, size_t row, size_t column, Table& table) {
  const auto [least, most] = preset.verdict;
  if (preset.is_baseline || !preset.refused.empty() || preset.n_failed > 0 || least != most) return;
  table.tones[{row, column}] = least == Level::unchanged    ? TableTone::kGood
                               : least == Level::small_loss ? TableTone::kBetween
                                                            : TableTone::kBad;
}

// Why cells hold no verdict.
void add_reasons(const ModelFindings& found, Table& table) {
  if (!found.error.empty()) table.notes.push_back(concat(found.model_name, " was not checked: ", found.error));
  for (const auto& preset : found.presets) {
    if (!preset.refused.empty()) {
      table.notes.push_back(concat(found.model_name, " is refused by ", preset.name, ": ", preset.refused));
    } else if (preset.n_failed > 0) {
      table.notes.push_back(
          concat(found.model_name, " failed ", preset.n_failed, " samples of ", preset.name, ": ", preset.failure));
    }
  }
}

}  // namespace

Table verdict_table(const ModelFindings& found) {
  constexpr double kMiB = 1024.0 * 1024.0;
  Table table;
  table.title = concat("Compressor presets on ", found.model_name, ", up to ", found.context, " tokens");
  table.columns = {{"compressor"},
                   {"verdict"},
                   {concat("KV at ", found.presets.front().n_size_tokens, " tokens"), kRight, "MiB", 2},
                   {"of 16 bits", kRight, "%", 1},
                   {"KL", kRight, "nats"},
                   {"top-1", kRight, "%"},
                   {"passkey", kRight},
                   {kDecidedBy}};
  for (const auto& p : found.presets) {
    const auto size = [&](double value) { return p.n_size_tokens > 0 ? TableCell(value) : TableCell(); };
    table.rows.push_back({p.name, p.is_baseline ? "(baseline)" : to_string(p.verdict), size(p.bytes / kMiB),
                          size(100 * p.bytes / p.bytes_16bit), kl_text(p.all), top1_text(p.all),
                          passkey_text(p.passkey_all), p.is_baseline ? "" : p.reasons + needed_text(p)});
    set_tone(p, table.rows.size() - 1, 1, table);
  }
  add_notes(found, table);
  return table;
}

Table stored_verdicts(Database& db, const std::string& experiment, const CheckSettings& settings) {
  std::vector<std::string> names{experiment};
  if (experiment == "all") names = stored_experiments(db);
  std::vector<ModelFindings> checks;
  for (const auto& name : names) {
    const auto cells = stored_check(db, name);
    if (cells.presets.empty()) continue;
    auto& found = checks.emplace_back();
    found.model_name = cells.model;
    found.settings = settings;
    found.tasks = cells.tasks;
    for (const auto& task : cells.tasks) found.context = std::max(found.context, task.n_tokens);
    found.presets = check_results(cells, settings, db, 0);
  }
  KVC_CHECK(!checks.empty(), "results database '", db.path(),
            "': ", experiment == "all" ? "no experiment" : concat("experiment '", experiment, "' has not"),
            " scored text with a lossless baseline, so there is nothing to judge");
  if (checks.size() == 1) return verdict_table(checks.front());
  Table table;
  table.title = "Compressor presets";
  for (const auto& found : checks) {
    auto own = verdict_table(found);
    if (table.columns.empty()) {
      table.columns = std::move(own.columns), table.notes = std::move(own.notes);
      table.columns.insert(table.columns.begin(), {"model"});
      table.columns[3].name = "KV";
    }
    for (size_t i = 0; i < own.rows.size(); ++i) {
      own.rows[i].insert(own.rows[i].begin(), found.model_name);
      set_tone(found.presets[i], table.rows.size(), 2, table);
      table.rows.push_back(std::move(own.rows[i]));
    }
  }
  return table;
}

Table for_paper(Table verdicts) {
  if (verdicts.columns.back().name != kDecidedBy) return verdicts;
  verdicts.columns.pop_back();
  for (auto& row : verdicts.rows) row.pop_back();
  return verdicts;
}

// A column for each length of the tasks that read texts, and for each of the others.
Table length_table(const ModelFindings& found) {
  Table table;
  table.title = "By length";
  table.columns = {{"compressor"}};
  for (const char* what : {"KL", "top-1"}) {
    for (const auto& task : found.tasks) {
      if (task.n_tokens == 0) continue;
      table.columns.push_back({concat(what, " at ", task.n_tokens), kRight});
    }
  }
  for (const auto& task : found.tasks) {
    if (task.n_tokens == 0) table.columns.push_back({task.name, kRight});
  }
  for (const auto& p : found.presets) {
    std::vector<TableCell> row{p.name};
    for (const auto& of : p.by_length) row.emplace_back(of.n_blocks ? kl_text(of) : kNotCompressed);
    for (const auto& of : p.by_length) row.emplace_back(top1_text(of));
    for (const auto& task : found.tasks) {
      if (task.n_tokens > 0) continue;
      const auto asked = p.passkey.find(task.name);
      row.emplace_back(asked == p.passkey.end() ? kNotCompressed : passkey_text(asked->second));
    }
    table.rows.push_back(std::move(row));
  }
  const auto left_out = [](const auto& p) {
    return std::ranges::any_of(p.by_length, [](auto& of) { return !of.n_blocks; });
  };
  if (std::ranges::any_of(found.presets, left_out)) {
    table.notes.push_back(concat("'", kNotCompressed,
                                 "': the method compressed no token at that length, which is left "
                                 "out of its KL, top-1 and verdict"));
  }
  return table;
}

Table tail_table(const ModelFindings& found) {
  Table table;
  table.title = "Token by token";
  table.columns = {{"compressor"}};
  const auto of_tails = tail_columns();
  table.columns.insert(table.columns.end(), of_tails.begin(), of_tails.end());
  for (const auto& p : found.presets) {
    if (p.is_baseline) continue;
    auto& row = table.rows.emplace_back();
    row = {p.name};
    for (auto& cell : tail_cells(p.tails)) row.push_back(std::move(cell));
  }
  table.notes.emplace_back(kTailsNote);
  return table;
}

Table paired_table(const ModelFindings& found) {
  Table table;
  table.title = "Against the best preset that is no larger";
  table.columns = {{"compressor"},
                   {"best one no larger"},
                   {"windows", kRight},
                   {"KL difference", kRight, "nats"},
                   {"p (Holm)", kRight}};
  for (const auto& p : found.presets) {
    if (p.rival.empty()) continue;
    const auto p_value = p.p_holm ? TableCell(to_digits(*p.p_holm, 2)) : TableCell();
    table.rows.push_back({p.name, p.rival, p.against_rival.n_windows, difference_text(p.against_rival), p_value});
  }
  table.notes.emplace_back(kPairedKlNote);
  table.notes.emplace_back("above 0: a preset that needs no more bytes loses less");
  return table;
}

Table verdict_matrix(const std::vector<ModelFindings>& models) {
  const auto checked =
      std::find_if(models.begin(), models.end(), [](const auto& found) { return found.error.empty(); });
  Table table;
  table.title = "Compressor presets by model";
  table.columns = {{"compressor"}};
  for (const auto& found : models) table.columns.push_back({found.model_name});
  for (size_t i = 0; i < checked->presets.size(); ++i) {
    std::vector<TableCell> row{checked->presets[i].name};
    for (const auto& found : models) {
      row.emplace_back(found.error.empty() ? state_of(found.presets[i]) : "");
      if (found.error.empty()) set_tone(found.presets[i], i, row.size() - 1, table);
    }
    table.rows.push_back(std::move(row));
  }
  for (const auto& found : models) add_reasons(found, table);
  table.notes.push_back(bounds_note(checked->settings));
  return table;
}

Table key_table(const std::vector<ModelFindings>& models) {
  Table table;
  table.title = "Key statistics";
  table.columns = {{"model"},
                   {"checked up to", kRight, "tokens"},
                   {"layers", kRight},
                   {"KV heads", kRight},
                   {"head_dim", kRight},
                   {"K biases"},
                   {"norms of Q and K"},
                   {"largest channel of K", kRight, "x median", 1},
                   {"which"},
                   {"outlier channels of K", kRight, "%", 2}};
  const CheckSettings* settings = nullptr;
  int64_t n_outliers = 0;
  for (const auto& found : models) {
    if (!found.error.empty()) continue;
    const auto& [config, keys] = std::tie(found.config, found.keys);
    const double share = static_cast<double>(keys.n_outliers) / static_cast<double>(keys.n_channels);
    table.rows.push_back({found.model_name, found.context, config.n_layers, config.n_kv_heads, config.head_dim,
                          config.qkv_bias ? "yes" : "no",
                          config.architecture->head_norms != HeadNorms::none ? "yes" : "no", keys.largest_ratio,
                          concat("layer ", keys.layer, ", channel ", keys.channel), 100 * share});
    n_outliers += keys.n_outliers;
    settings = &found.settings;
  }
  table.notes.push_back(
      concat("channels of K by mean magnitude on the longest text, relative to the median channel of their layer; "
             "outliers are above ",
             settings->outlier_channel, " times the median"));
  if (n_outliers > 0) table.notes.push_back(kOutliersNote);
  return table;
}

}  // namespace kvc
