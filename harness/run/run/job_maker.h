// Jobs for workers, from samples.
#pragma once

#include <optional>
#include <vector>

#include "run/pending_jobs.h"
#include "tokenizer/tokenizer.h"
#include "wire/messages.h"

namespace kvc {

class JobMaker {
 public:
  // store: of a probe, which looks for answers there; may be null else
  JobMaker(const Grid& grid, const Experiment& experiment, ResultStore* store);

  // Encodes the prompt into `pending`, unless sizes are asked for; the job's id is the caller's to set. Throws Error
  // where the prompt cannot be encoded or does not fit.
  Job make(PendingJob& pending);

  const Tokenizer& tokenizer() const { return tokenizer_; }

 private:
  using Ids = std::vector<int64_t>;

  EncodedPrompt encode(size_t task, size_t sample) const;
  const Ids& shared_ids(size_t task);
  Job make_sizes(const PendingJob& pending) const;
  ProbeJob probe_of(const PendingJob& pending, const Sample& sample) const;

  const Grid& grid_;
  const Experiment& experiment_;
  ResultStore* store_;
  Tokenizer tokenizer_;
  std::vector<std::optional<Ids>> shared_ids_;  // of each task's prompts
};

}  // namespace kvc
