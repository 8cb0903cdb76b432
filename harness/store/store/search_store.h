// Searches and their candidates in the results database: what was scored once is never scored again.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "store/result_store.h"

namespace kvc {

// A row of `search`; results/columns.yaml says what the fields are.
struct SearchRecord {
  std::string key, calibration_key, experiment, model_label, tasks, samples_json;
  std::string plugin, plugin_sha256, option, options_json, levels;
  double budget_share = 0;
  int64_t seed = 0, n_candidates = 0, n_samples = 0, n_answer_tokens = 0, kv_bytes_fp16 = 0;
};

struct CandidateScore {
  std::string error;                    // empty when the rest holds
  double nll = 0;                       // NaN when it is no number
  std::vector<int64_t> bytes_of_layer;  // held at the end of the samples, in sum
};

struct CandidateRecord {
  std::string plan, family;
  std::vector<int64_t> values;  // the plan's, layer by layer
  CandidateScore score;
};

class SearchStore {
 public:
  explicit SearchStore(ResultStore& store) : db_(store.database()) {}

  void put_search(const SearchRecord& search);  // idempotent
  // What any search with this calibration has found for a plan.
  std::optional<CandidateScore> find_score(const std::string& calibration_key, const std::string& plan);
  std::optional<double> find_correct(const std::string& calibration_key, const std::string& plan);

  // One transaction; idempotent. first: the number of the first of them in the order they were tried.
  void put_candidates(const std::string& search_key, int64_t first, const std::vector<CandidateRecord>& candidates);
  void put_correct(const std::string& search_key, int64_t candidate, double n_correct);

  // The candidate of rank 1; nothing where none fits the budget.
  std::optional<int64_t> best(const std::string& search_key);

 private:
  Database& db_;
};

}  // namespace kvc
