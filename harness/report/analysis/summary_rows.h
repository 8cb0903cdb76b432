// The rows of results/tables/summary.sql: a cell with its sums and its headline score.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "stats/interval.h"
#include "store/database.h"

namespace kvc {

struct SummaryRow {
  std::string key, model_label, plugin, options, task, suspect;
  std::string label;    // that its experiment gives it, or nothing
  std::string formula;  // whose closed form paper_bytes are by; "" of an earlier kvc's
  std::string variant;  // model, binary, options and settings, a line each: cells that are equal in it share a row
  std::string chat;     // v_cell.chat_json
  double bits = 0;
  bool is_simulated = false, is_lossy = false;
  int64_t n_samples = 0, n_ok = 0, n_failed = 0, n_missing = 0, n_not_encoded = 0;
  double n_answers = 0, n_answer_tokens = 0, n_at_limit = 0, n_in_loop = 0;  // of what was generated, in sum
  double kv_bytes = 0, kv_bytes_fp16 = 0, paper_bytes = 0, peak_kv_bytes = 0, n_new_tokens = 0, decode_seconds = 0;
  std::optional<double> n_encoded_numbers;  // over all samples; nothing of an earlier kvc's
  std::optional<double> bits_per_number;    // at the longest length of `size_percent`, or the samples' own
  std::map<int64_t, double> size_percent;   // by tokens of a made prompt
  std::string extractor;                    // of the headline score
  bool has_score = false;                   // the rest holds only then
  std::string measure;                      // v_interval's: accuracy, score or top-1
  double score = 0;                         // percent
  std::optional<Interval> interval;         // percent
};

// Sizes, from results/tables/sizes.sql, are there where a database is up to date.
std::vector<SummaryRow> read_summary(Database& db, const std::string& experiment);

}  // namespace kvc
