// What a sample's job has of its task and its experiment: when generation ends, and its randomness.
#pragma once

#include "contract/stop_rule.h"
#include "experiment/experiment.h"
#include "task/dataset.h"
#include "tokenizer/tokenizer.h"

namespace kvc {

// What names the sequence, the same whatever runs with it, before it or in which process.
uint64_t sequence_key(const Experiment& experiment, const Sample& sample);

StopRule stop_rule(const TaskSpec& task, const Tokenizer& tokenizer);

}  // namespace kvc
