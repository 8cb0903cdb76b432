#include "run/score_stored.h"

#include <cstdio>

#include "run/sample_record.h"
#include "store/rescore.h"

namespace kvc {

int64_t score_stored(const Grid::Cell& cell, const Grid::Task& task, ResultStore& store) {
  const auto& record = cell.record;
  AnswerScorer scorer;
  const auto score = [&](const StoredGeneration& stored) {
    auto rows = scores_of(task.spec, stored.generation, stored.gold, scorer);
    const auto buckets = task.buckets.find(stored.sample);
    if (buckets != task.buckets.end()) add_buckets(buckets->second, rows);
    return rows;
  };
  const auto report = [&](int64_t sample, const Error& error) {
    std::fprintf(stderr, "failed: %s, sample %ld, %s (%s): %s\n", record.task.c_str(), sample, record.plugin.c_str(),
                 record.options_label.c_str(), error.what());
  };
  const auto counts = score_anew(store.database(), record.key, record.scoring_json, score, report);
  if (counts.n_samples > 0) {
    std::fprintf(stderr, "rescored %ld samples of cell %.12s (%s, %s %s): %s\n", counts.n_samples, record.key.c_str(),
                 record.task.c_str(), record.plugin.c_str(), record.options_label.c_str(),
                 counts.is_other ? "its task's extractors changed" : "they had failed as they were scored");
  }
  return counts.n_failed;
}

}  // namespace kvc
