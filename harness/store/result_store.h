// The results database: cells, samples, scores, bytes and times in one SQLite file. A sample is one transaction.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "store/database.h"

namespace kvc {

// A plugin inside a composed compressor; the first is stage 1.
struct StageRow {
  std::string plugin, plugin_sha256;
  std::string place;  // what it is there: "stage 2", "layers 0-1, v"
  std::string options_json;
};

// One point of an experiment's grid. `key` is the content hash of all that can change what is generated or measured.
struct CellRecord {
  std::string key;
  std::string experiment;   // the cell may belong to several: each put_cell adds its experiment
  std::string model, task;  // names for people
  std::string model_json, task_json;
  std::string plugin, plugin_sha256;
  std::string options_json;   // canonical, every option
  std::string options_label;  // for tables, e.g. the options that were given; empty: all of options_json
  std::string generation_json;
  std::string provenance_json;  // host, compiler, versions, seeds; a cell keeps one row for each that differs
  double bits = 16;
  int64_t n_samples = 0;
  bool lossy = false;
  bool simulated = false;
  std::string kind = "eval";          // or probe, bench, capacity
  std::vector<StageRow> stages = {};  // of a composed compressor; empty for a plain one
  std::string label = {};             // the row's name in the experiment's tables; "": plugin and options
  int64_t position = 0;               // of the compressor in the experiment
  std::string scoring_json = "{}";    // how generations are scored: no part of the key
};

// Bytes that the caches of one sample hold at its end.
struct ByteRow {
  int64_t layer = 0;
  std::string tensor;  // k, v, shared
  std::string kind;    // codes, scales, ...
  int64_t bytes = 0;
  int64_t stage = 0;  // 0: a plain compressor's, or a composition's own
};

// Of the sample's encode and attend seconds, those of one stage of a composition (0: its own).
struct StageTimeRow {
  int64_t stage = 0;
  double encode_seconds = 0, attend_seconds = 0;
};

// The first ScoreRow of a sample is its task's headline.
struct ScoreRow {
  std::string extractor;
  std::optional<std::string> answer;
  double value = 0;  // 0 to 1
};

// Sums over consecutive scored tokens of a text.
struct LikelihoodRow {
  int64_t position = 0;  // in the text, of the first
  int64_t n_tokens = 0;
  double nll = 0, kl = 0;  // in nats
  int64_t n_top1_same = 0;
};

struct SampleRecord {
  std::string cell_key;
  int64_t sample = 0;
  std::string status;  // ok, failed
  std::string error;   // one line; empty when ok
  std::string prompt, generation, gold;
  int64_t n_prompt_tokens = 0, n_reused_tokens = 0, n_new_tokens = 0;
  int64_t n_prompt_tokens_before = 0;  // truncation; n_prompt_tokens where nothing was cut
  std::string stop_reason;             // eos, stop, limit, ...
  std::string token_ids_json = "[]";
  std::vector<ScoreRow> scores;
  std::string scoring_json = "{}";  // that the scores are by
  std::vector<ByteRow> bytes;
  std::vector<StageTimeRow> stages = {};       // empty for a plain compressor
  std::vector<LikelihoodRow> likelihood = {};  // of a task that reads a text
  int64_t kv_bytes = 0, kv_bytes_fp16 = 0;     // fp16: the same tokens at 16 bits
  double paper_bytes = 0;                      // by the paper's closed form; NaN: it has none
  int64_t n_encoded_tokens = 0;
  double k_error = 0, v_error = 0;  // relative Frobenius norm of the prompt's reconstruction; NaN is stored as NULL
  int64_t peak_weights_bytes = 0, peak_kv_bytes = 0, peak_workspace_bytes = 0;
  std::optional<int64_t> peak_bytes, peak_other_bytes;  // observed; none: not observed
  double prefill_seconds = 0, encode_seconds = 0, attend_seconds = 0, other_seconds = 0;
};

// One number of a probe; -1 where a key does not apply.
struct ProbeRow {
  std::string measure;
  int64_t layer = -1, head = -1;
  std::string tensor;
  int64_t step = -1;
  double value = 0;  // NaN is stored as NULL
};

// Derived by the view v_cell; nothing of it is stored.
struct CellStatus {
  int64_t n_ok = 0, n_failed = 0, n_missing = 0;
  std::string suspect;  // why the result cannot be what it says, or empty
};

class ResultStore {
 public:
  // Creates the file or opens it for writing. Refused, in one line each: a newer schema, another program's database, a
  // file that is no database, a read-only file or folder. Here and below, a lock that another writer holds for longer
  // than `wait_ms` is an error of the call that meets it. Every commit is on the disk before the call returns.
  static ResultStore open(const std::filesystem::path& path, int wait_ms = 10'000);
  static ResultStore open_readonly(const std::filesystem::path& path, int wait_ms = 10'000);

  // Idempotent. The same key with other content is an error; n_samples may grow; of a cell that is there the scoring
  // stays: score_anew() changes it, with the scores. In an experiment a label stands for
  // one cell of a model and task: an earlier one of other content leaves the experiment, and stays in the database.
  void put_cell(const CellRecord& cell);
  std::set<int64_t> finished_samples(const std::string& cell_key);  // with status ok
  // Those, and failed ones whose generation is there, which could not be scored: a resumed run skips them.
  std::set<int64_t> generated_samples(const std::string& cell_key);
  // One transaction. A failed sample is replaced; an ok sample or probe is never changed, nor one stored whose scores
  // are by another scoring than the cell's.
  enum class Put { kStored, kIsThere, kOtherScoring };
  Put put_sample(const SampleRecord& sample);
  // Nothing when there is no such cell.
  std::optional<CellStatus> cell_status(const std::string& cell_key);

  // Samples whose probe is there.
  std::set<int64_t> probed_samples(const std::string& cell_key);
  // One transaction: a sample's probe, in place of a failed try; never changed. Returns whether it was stored.
  bool put_probe(const std::string& cell_key, int64_t sample, const std::vector<ProbeRow>& rows);
  // Token ids that a lossless compressor's eval cell of the same model, task and settings holds; empty where none does.
  std::vector<int64_t> full_precision_answer(const CellRecord& cell, const std::string& generation_json,
                                             int64_t sample);

  Database& database() { return db_; }

 private:
  explicit ResultStore(Database db) : db_(std::move(db)) {}
  Database db_;
};

// All tables ordered by primary key, one line a row, without the columns that depend on time or host: two databases of
// the same work have the same dump, however often the work was interrupted.
std::string stable_dump(Database& db);

}  // namespace kvc
