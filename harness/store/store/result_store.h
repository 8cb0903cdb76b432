// The results database: cells, samples, scores, bytes and times in one SQLite file. A sample is one transaction.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "contract/measurement.h"
#include "contract/run_kind.h"
#include "contract/stage_row.h"
#include "store/database.h"
#include "text/temporary_folder.h"

namespace kvc {

// One point of an experiment's grid. `key` is the content hash of all that can change what is generated or measured.
struct CellRecord {
  std::string key;
  std::string experiment;         // the cell may belong to several: each put_cell adds its experiment
  std::string model_label, task;  // names for people
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
  bool evicts = true;                 // may hold fewer tokens than it was given; not stored
  RunKind kind = RunKind::eval;       // never search
  std::vector<StageRow> stages = {};  // of a composed compressor; empty for a plain one
  std::string label = {};             // the row's name in the experiment's tables; "": plugin and options
  int64_t position = 0;               // of the compressor in the experiment
  double min_baseline = 0;            // of the experiment, in %
  std::string scoring_json = "{}";    // how generations are scored: no part of the key
  std::string formula = {};           // whose closed form paper_bytes are by; "": the plugin's own, or none
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

// Of each scored token of a text, the first at `position`.
struct TokenLikelihoods {
  int64_t position = 0;
  std::vector<float> nll, kl;      // in nats
  std::vector<float> acceptance;   // 0 to 1
  std::vector<uint8_t> top1_same;  // 0 or 1
  std::vector<std::string> texts;
};

struct SampleRecord : Measurement {
  std::string cell_key;
  int64_t sample = 0;
  std::string status;  // ok, failed
  std::string error;   // one line; empty when ok
  std::string prompt, generation, gold;
  std::string stop_reason;  // eos, stop, limit, ...
  std::string token_ids_json = "[]";
  std::vector<ScoreRow> scores;
  std::string scoring_json = "{}";  // that the scores are by
  std::vector<ByteRow> bytes;
  std::vector<StageTimeRow> stages = {};       // empty for a plain compressor
  std::vector<LikelihoodRow> likelihood = {};  // of a task that reads a text
  TokenLikelihoods tokens = {};                // and token by token
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
  // A packed file (NAME.sqlite.xz), and one of an earlier kvc, is read from a copy that is unpacked and up to date; the
  // copy is deleted with the store.
  static ResultStore open_readonly(const std::filesystem::path& path, int wait_ms = 10'000);
  static ResultStore open_as_it_is(const std::filesystem::path& path, int wait_ms = 10'000);  // whatever its version

  // Idempotent. The same key with other content is an error; n_samples may grow; of a cell that is there the scoring
  // stays: score_anew() changes it, with the scores. In an experiment a label stands for
  // one cell of a model and task: an earlier one of other content leaves the experiment, and stays in the database.
  void put_cell(const CellRecord& cell);
  // The experiment's cells of these keys become those of an older definition: of the experiment "<name>@older".
  void put_aside(const std::string& experiment, const std::set<std::string>& keys);
  std::set<int64_t> finished_samples(const std::string& cell_key);  // with status ok
  // Those, and failed ones whose generation is there, which could not be scored: a resumed run skips them.
  std::set<int64_t> generated_samples(const std::string& cell_key);
  // One transaction. A failed sample is replaced; an ok sample or probe is never changed, nor one stored whose scores
  // are by another scoring than the cell's.
  enum class Put { kStored, kIsThere, kOtherScoring };
  Put put_sample(const SampleRecord& sample);
  // Nothing when there is no such cell.
  std::optional<CellStatus> cell_status(const std::string& cell_key);

  // Lengths in tokens at which the cell's size was measured, or tried to be.
  std::set<int64_t> sizes_of(const std::string& cell_key);
  // Whether it was, or is taken over from another cell of the same model, plugin and options.
  // Of the cell's ok samples with compressed values: these values, and the bytes that are not of uncompressed tokens.
  struct EncodedBytes {
    double n_values, bytes;
  };
  std::vector<EncodedBytes> encoded_bytes(const std::string& cell_key);
  bool has_size(const std::string& cell_key, int64_t n_tokens);
  // One transaction; what is there stays.
  void put_sizes(const std::string& cell_key, const std::vector<CacheSize>& sizes);

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
  std::shared_ptr<TemporaryFolder> unpacked_in_;  // outlives the database
  Database db_;
};

// The database, made where there is none, and its folder, too, where that is a `results`. What goes wrong is an
// EnvironmentError: by what the machine refuses, not by what the user wrote.
ResultStore open_store(const std::filesystem::path& path);

}  // namespace kvc
