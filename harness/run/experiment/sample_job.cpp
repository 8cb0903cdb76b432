#include "experiment/sample_job.h"

namespace kvc {

uint64_t sequence_key(const Experiment& experiment, const Sample& sample) {
  return static_cast<uint64_t>(experiment.seed) * 0x9e3779b97f4a7c15u + static_cast<uint64_t>(sample.id);
}

Job sample_job(const TaskSpec& task, const Sample& sample, const Experiment& experiment, const Tokenizer& tokenizer) {
  Job job;
  job.sequence_key = sequence_key(experiment, sample);
  job.stop_strings = task.stop;
  for (const auto& text : task.stop_tokens) job.stop_ids.push_back(tokenizer.encode(text, false).back());
  job.max_new_tokens = task.max_new_tokens;
  job.min_new_tokens = task.min_new_tokens;
  return job;
}

}  // namespace kvc
