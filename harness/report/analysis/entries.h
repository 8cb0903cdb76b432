// The cells that the papers' tables and figures are made of.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "render/table.h"
#include "store/database.h"

namespace kvc {

// The names of all experiments that the database has cells of, older definitions left out.
std::vector<std::string> stored_experiments(Database& db);
// Throws Error with the nearest and the known names where it is none of them.
void check_stored_experiment(Database& db, const std::string& experiment);

// The plugins of all evaluated cells in one order, those that lose nothing first: what colours go by.
std::vector<std::string> stored_methods(Database& db);

// Makes the temporary tables that the SQL of results/tables/<paper>/ and results/figures/<paper>/ reads:
//   chosen(experiment): the experiments that are shown
//   entry: one row a cell of these experiments: experiment, position, label (as the experiment calls its compressor, or
//     plugin and the options that differ), key, kind, model (its folder's name), task, task_json (with its scoring),
//     model_json, plugin, options_json, generation_json, bits, is_lossy, is_simulated, n_samples; sums over its ok samples: n_ok,
//     kv_bytes, kv_bytes_fp16, paper_bytes, n_prompt_tokens, n_new_tokens; of its headline score, as in v_interval
//     (results/interval_views.sql): measure, n_scores, and in percent accuracy (whatever the measure), low, high; of
//     running text also kl, kl_low, kl_high (nats per token)
// Tasks on which full precision scores less than experiment_cell.min_baseline are left out; suspect cells too, unless
// asked for. Returns what a caption must say of both.
std::vector<std::string> make_entries(Database& db, const std::vector<std::string>& experiments, bool with_suspects);

// results/entries.sql, built into the program: the rows of entry. Of a cell without evaluation (a probe, a bench)
// v_cell has no row.
std::string_view entries_sql();

// Whether the statement reads the table entry, which is there. Throws Error where it is no statement.
bool reads_entry(Database& db, const std::string& sql);

// The same tables as parts of the statement itself, without what is suspect, for those who cannot make temporary ones.
std::string with_entries(std::string sql, const std::vector<std::string>& experiments);

}  // namespace kvc
