// How good caches of given compressors are on calibration samples, by the model's own answers and by accuracy.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "generate/generator.h"
#include "run/grid.h"
#include "store/search_store.h"
#include "task/answer_scorer.h"

namespace kvc {

// A task's last samples, since experiments take the first.
struct SearchSample {
  const Grid::Task* task;
  const Sample* sample;
};
std::vector<SearchSample> search_samples(const Grid& grid, int64_t n_of_each_task);

// The model, and for each sample the answer that it gives greedily from an exact cache.
class PlanScorer {
 public:
  // Prompts are cut and seeded as the experiment says. The grid outlives this.
  PlanScorer(const Grid& grid, const std::vector<SearchSample>& samples, const Experiment& experiment);

  ModelShape shape() const { return model_.shape(); }
  int64_t n_answer_tokens() const;
  int64_t fp16_bytes() const;  // of the tokens that the caches of all samples hold at the end

  // Feeds the answers token by token through each compressor's caches, which decode from what they hold. A compressor
  // that throws has an error in its score.
  std::vector<CandidateScore> score(const std::vector<const Compressor*>& compressors);
  // Generates as a run does, from each compressor's caches -> scores of the answers by the tasks' first extractors, in
  // sum. Throws Error where a compressor does.
  std::vector<double> n_correct(const std::vector<const Compressor*>& compressors);

 private:
  struct Prepared {
    SearchSample of;
    std::vector<int64_t> prompt_ids, answer_ids;
    uint64_t sequence_key;
  };
  // One request for all compressors, run to its end; in the order of the compressors.
  std::vector<Generation> run(const Prepared& sample, const std::vector<const Compressor*>& compressors,
                              const Sampling& sampling, bool scored);

  Sampling sampling_;
  MemoryMeter meter_;  // before the model: its weights are booked on it
  Transformer model_;
  Tokenizer tokenizer_;
  Generator generator_;
  std::vector<Prepared> samples_;
  AnswerScorer scorer_;
};

}  // namespace kvc
