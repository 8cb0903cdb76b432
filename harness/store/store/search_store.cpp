#include "store/search_store.h"

#include <limits>

#include "kvc/check.h"
#include "store/new_row.h"

namespace kvc {

void SearchStore::put_search(const SearchRecord& s) {
  NewRow row("search");
  row.set("key", s.key).set("calibration_key", s.calibration_key).set("experiment", s.experiment);
  row.set("model", s.model_label).set("tasks", s.tasks).set("samples_json", s.samples_json);
  row.set("plugin", s.plugin).set("plugin_sha256", s.plugin_sha256).set("option", s.option);
  row.set("options_json", s.options_json).set("levels", s.levels).set("budget_share", s.budget_share);
  row.set("seed", s.seed).set("n_candidates", s.n_candidates).set("n_samples", s.n_samples);
  row.set("n_answer_tokens", s.n_answer_tokens).set("kv_bytes_fp16", s.kv_bytes_fp16);
  row.insert(db_, "ON CONFLICT DO NOTHING");
}

std::optional<CandidateScore> SearchStore::find_score(const std::string& calibration_key, const std::string& plan) {
  auto select = db_.prepare(
      "SELECT c.error, c.nll, c.search_key, c.candidate FROM search_candidate AS c"
      " JOIN search AS s ON s.key = c.search_key WHERE s.calibration_key = ? AND c.plan = ?");
  if (!select.bind(1, calibration_key).bind(2, plan).step()) return std::nullopt;
  CandidateScore score{
      select.text(0), select.is_null(1) ? std::numeric_limits<double>::quiet_NaN() : select.real(1), {}};
  auto layers = db_.prepare("SELECT kv_bytes FROM search_layer WHERE search_key = ? AND candidate = ? ORDER BY layer");
  layers.bind(1, select.text(2)).bind(2, select.integer(3));
  while (layers.step()) score.bytes_of_layer.push_back(layers.integer(0));
  return score;
}

std::optional<double> SearchStore::find_correct(const std::string& calibration_key, const std::string& plan) {
  auto select = db_.prepare(
      "SELECT c.n_correct FROM search_candidate AS c JOIN search AS s ON s.key = c.search_key"
      " WHERE s.calibration_key = ? AND c.plan = ? AND c.n_correct IS NOT NULL");
  if (!select.bind(1, calibration_key).bind(2, plan).step()) return std::nullopt;
  return select.real(0);
}

void SearchStore::put_candidates(const std::string& search_key, int64_t first,
                                 const std::vector<CandidateRecord>& candidates) {
  Transaction transaction(db_);
  for (size_t i = 0; i < candidates.size(); ++i) {
    const auto& [plan, family, values, score] = candidates[i];
    const int64_t number = first + static_cast<int64_t>(i);
    KVC_CHECK(score.bytes_of_layer.size() == values.size() || !score.error.empty(), "candidate ", plan, " has ",
              values.size(), " layers, its bytes are those of ", score.bytes_of_layer.size());
    int64_t kv_bytes = 0;
    for (const int64_t n : score.bytes_of_layer) kv_bytes += n;
    auto there = db_.prepare("SELECT plan FROM search_candidate WHERE search_key = ? AND candidate = ?");
    if (there.bind(1, search_key).bind(2, number).step()) {
      KVC_CHECK(there.text(0) == plan, "results database '", db_.path(), "': candidate ", number, " of search ",
                search_key, " is ", there.text(0), ", and now ", plan);
      continue;
    }
    auto insert = db_.prepare("INSERT INTO search_candidate VALUES (?, ?, ?, ?, ?, ?, ?, NULL)");
    insert.bind(1, search_key).bind(2, number).bind(3, plan).bind(4, family).bind(5, score.error);
    insert.bind(6, score.error.empty() ? score.nll : std::numeric_limits<double>::quiet_NaN()).bind(7, kv_bytes).run();
    for (size_t layer = 0; layer < score.bytes_of_layer.size(); ++layer) {
      auto row = db_.prepare("INSERT INTO search_layer VALUES (?, ?, ?, ?, ?)");
      row.bind(1, search_key).bind(2, number).bind(3, static_cast<int64_t>(layer)).bind(4, values[layer]);
      row.bind(5, score.bytes_of_layer[layer]).run();
    }
  }
  transaction.commit();
}

void SearchStore::put_correct(const std::string& search_key, int64_t candidate, double n_correct) {
  db_.prepare("UPDATE search_candidate SET n_correct = ? WHERE search_key = ? AND candidate = ?")
      .bind(1, n_correct)
      .bind(2, search_key)
      .bind(3, candidate)
      .run();
}

std::optional<int64_t> SearchStore::best(const std::string& search_key) {
  auto select = db_.prepare("SELECT candidate FROM v_search_candidate WHERE search_key = ? AND rank = 1");
  if (!select.bind(1, search_key).step()) return std::nullopt;
  return select.integer(0);
}

}  // namespace kvc
