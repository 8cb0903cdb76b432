// A model with presets of compressors: which tasks fit it, what they found, what that amounts to.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "analysis/likelihood_table.h"
#include "analysis/paired_kl.h"
#include "analysis/tails.h"
#include "check/check_verdict.h"
#include "experiment/grid.h"
#include "render/table.h"
#include "store/database.h"
#include "store/result_store.h"

namespace kvc {

// Of `names`, those tasks that fit `context` tokens with the model's tokenizer: windows by their length, questions by
// their longest prompt; of each name the n_lengths longest. Sets experiment.tasks to their names. Throws Error where no
// task that reads a text fits. Places the windows of texts so that none shares a token with another, of any length.
void choose_tasks(const CheckSettings& settings, int64_t context, const std::filesystem::path& model_folder,
                  const Paths& paths, Experiment& experiment);

// The file's experiment, of that name and model, with `settings` (path=value) and, unless there are none, `texts` in
// place of its own.
Experiment load_for_model(const std::filesystem::path& file, std::vector<std::string> settings,
                          const std::string& model, const std::string& name, const std::vector<std::string>& texts);

// Bytes of a cache filled with a prompt of n_tokens, for each compressor, measured in a child process.
std::vector<double> measured_kv_bytes(const std::vector<CompressorChoice>& compressors, const ModelShape& shape,
                                      int64_t n_tokens);

// Makes those of the tasks' texts that a program of this machine can print and that are not there, in the user's cache
// folder. Throws EnvironmentError naming the package where that fails.
void make_texts(const Experiment& experiment, const Paths& paths);

// The compressor's label, or its plugin and options.
std::string name_of(const CellRecord& record);

// Which compressor the others are held against: the first that is not lossy. Throws Error where all are.
size_t baseline_of(const Grid& grid);

// What a model's keys are like, where they make a method break.
struct KeyChannels {
  double largest_ratio = 0;  // a channel's mean magnitude over the median channel's of its layer
  int64_t layer = 0, channel = 0;
  int64_t n_channels = 0, n_outliers = 0;  // of all layers; above the bound
};
// From a probe's channel_mean_abs in `db`.
KeyChannels key_channels(Database& db, const std::string& probe_cell, double outlier_ratio);

struct PasskeyResult {
  int64_t n = 0, n_right = 0, n_right_full = 0;  // over questions that both answered
  int64_t n_lost = 0, n_gained = 0;              // right with one of the two alone
  Interval loss;                                 // share lost against full, Tango's 95 % interval
};

struct PresetResult {
  std::string name, plugin, options_json;
  bool is_baseline = false;
  double bytes = 0, bytes_16bit = 0;             // of a prompt of n_size_tokens; 0: not stored
  int64_t n_size_tokens = 0;                     // the model's context, or what is stored
  LikelihoodStretch all, longest;                // over all lengths, and the longest
  std::vector<LikelihoodStretch> by_length;      // shortest first; n_blocks 0: nothing was compressed at that length
  std::map<std::string, std::string> text_keys;  // cells of the others, by task
  Tails tails;                                   // over all lengths
  std::string rival;                             // the preset of lowest KL among those no larger; "": there is none
  PairedKl against_rival;                        // this one minus that
  std::optional<double> p_holm;                  // of the two, over all presets
  std::map<std::string, PasskeyResult> passkey;  // by task
  PasskeyResult passkey_all;
  Levels verdict;
  std::string reasons;         // which figures decided, or leave it open
  double n_tokens_needed = 0;  // of text, about, so that its figures leave nothing open; 0: they leave nothing open
  int64_t n_failed = 0;
  std::string failure;  // of the first sample that failed
  std::string refused;  // why the compressor cannot serve the model; nothing of the above is then known
};

// The cells that a check is made of, whether they are about to run or stored.
struct CheckedTask {
  std::string name;
  int64_t n_tokens = 0;  // of a window of text; 0: questions
};
struct CheckedPreset {
  std::string name, plugin, options_json;
  bool is_lossy = false;
  std::vector<std::string> cell_keys;  // by task; "": there is none
};
struct CheckedCells {
  std::string model;  // as its cells name it
  std::vector<CheckedTask> tasks;
  std::vector<CheckedPreset> presets;
};
CheckedCells checked_cells(const Grid& grid);
// Those of an experiment that scored text, with the baseline first that it has; no presets: it is no such experiment.
CheckedCells stored_check(Database& db, const std::string& experiment);

// As far as they were computed; their bytes as far as they are stored (put_bytes), of n_size_tokens or 0: of the longest
// prompt.
std::vector<PresetResult> check_results(const CheckedCells& cells, const CheckSettings& settings, Database& db,
                                        int64_t n_size_tokens);

// Stores what the presets' caches hold of a prompt of n_tokens, measured where the database does not know it yet.
void put_bytes(const CheckedCells& cells, const std::vector<CompressorChoice>& compressors, const ModelShape& shape,
               int64_t n_tokens, ResultStore& store);

// Windows of each length that may decide what is open, from `limit` now and at most 16 times `first`; 0: nothing is
// open that they would decide.
int64_t limit_to_decide(const std::vector<PresetResult>& presets, int64_t limit, int64_t first);

// Compares each preset with its rival on the same tokens; their bytes are known by then.
void pair_presets(Database& db, std::vector<PresetResult>& presets);

}  // namespace kvc
