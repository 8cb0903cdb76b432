// Answers of workers into the store.
#pragma once

#include "run/pending_jobs.h"
#include "run/run_progress.h"
#include "scoring/answer_scorer.h"

namespace kvc {

// One transaction an answer. Counts it in the outcome and the progress, and reports what failed.
class ResultFiler {
 public:
  ResultFiler(const Grid& grid, const Experiment& experiment, ResultStore& store, RunProgress& progress,
              RunOutcome& outcome)
      : grid_(grid), experiment_(experiment), store_(store), progress_(progress), outcome_(outcome) {}

  void put(const PendingJob& job, const JobResult& result);
  bool has_result(int compressor) const;  // a sample of it went well, now or before

 private:
  const Grid::Cell& cell_of(size_t task, int compressor) const;
  void put_sizes(const PendingJob& job, const JobResult& result);
  static void check_with(const std::vector<ResultStore::EncodedBytes>& samples, CacheSize& size);
  void put_probe(const CellRecord& cell, SampleRecord& record, const JobResult& result);
  void report_failure(SampleRecord& record, const CellRecord& cell);

  const Grid& grid_;
  const Experiment& experiment_;
  ResultStore& store_;
  RunProgress& progress_;
  AnswerScorer scorer_;
  RunOutcome& outcome_;
};

}  // namespace kvc
