// How good caches of given compressors are on calibration samples, by the model's own answers and by accuracy.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "experiment/grid.h"
#include "scoring/answer_scorer.h"
#include "store/search_store.h"
#include "wire/messages.h"
#include "wire/worker_process.h"

namespace kvc {

// A task's last samples, since experiments take the first.
struct SearchSample {
  const Grid::Task* task;
  const Sample* sample;
};
std::vector<SearchSample> search_samples(const Grid& grid, int64_t n_of_each_task);

// A worker with the model, and for each sample the answer that it gives greedily from an exact cache.
class PlanScorer {
 public:
  // Prompts are cut and seeded as the experiment says. The grid outlives this.
  // on_sample is told behind each sample how many compressors it went through.
  PlanScorer(const Grid& grid, const std::vector<SearchSample>& samples, const Experiment& experiment,
             std::function<void(int64_t n_compressors)> on_sample);

  int64_t n_layers() const { return shape_.n_layers; }
  int64_t n_answer_tokens() const;
  int64_t fp16_bytes() const;  // of the tokens that the caches of all samples hold at the end

  // Feeds the answers token by token through each compressor's caches, which decode from what they hold. A compressor
  // that throws has an error in its score; one that cannot be made is an Error.
  std::vector<CandidateScore> score(const std::vector<CompressorChoice>& compressors);
  // Generates as a run does, from each compressor's caches -> scores of the answers by the tasks' first extractors, in
  // sum. Throws Error where a compressor does.
  std::vector<double> n_correct(const std::vector<CompressorChoice>& compressors);

 private:
  struct Prepared {
    SearchSample of;
    uint64_t sequence_key;
    GenerateJob asked;
    std::vector<int64_t> answer_ids;
  };
  void use(const std::vector<CompressorChoice>& compressors);
  // One job for all compressors in use, run to its end; in their order.
  std::vector<JobResult> run(uint64_t sequence_key, decltype(Job::asked) asked);
  nlohmann::json next();  // of the worker's messages
  void expect_ready();

  ModelShape shape_;
  std::function<void(int64_t n_compressors)> on_sample_;
  WorkerProcess process_;
  size_t n_in_use_ = 0;
  std::vector<Prepared> samples_;
  AnswerScorer scorer_;
};

}  // namespace kvc
