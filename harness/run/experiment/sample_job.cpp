#include "experiment/sample_job.h"

namespace kvc {

Job sample_job(const TaskSpec& task, const Sample& sample, const Experiment& experiment, const Tokenizer& tokenizer) {
  Job job;
  // The sequence's own randomness: the same whatever runs beside it, before it or in which process.
  job.sequence_key = static_cast<uint64_t>(experiment.seed) * 0x9e3779b97f4a7c15u + static_cast<uint64_t>(sample.id);
  job.stop_strings = task.stop;
  for (const auto& text : task.stop_tokens) job.stop_ids.push_back(tokenizer.encode(text, false).back());
  job.max_new_tokens = task.max_new_tokens;
  job.min_new_tokens = task.min_new_tokens;
  return job;
}

}  // namespace kvc
