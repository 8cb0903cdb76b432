#include "experiment/sample_job.h"

namespace kvc {

uint64_t sequence_key(const Experiment& experiment, const Sample& sample) {
  return static_cast<uint64_t>(experiment.seed) * 0x9e3779b97f4a7c15u + static_cast<uint64_t>(sample.id);
}

StopRule stop_rule(const TaskSpec& task, const Tokenizer& tokenizer) {
  StopRule rule{{}, task.stop, task.max_new_tokens, task.min_new_tokens};
  for (const auto& text : task.stop_tokens) rule.eos_ids.push_back(tokenizer.encode(text, false).back());
  return rule;
}

}  // namespace kvc
