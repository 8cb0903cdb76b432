// A job for a sample as far as its task and its experiment say it: when generation ends, and its randomness. Prompt and
// compressors are the caller's.
#pragma once

#include "experiment/experiment.h"
#include "task/dataset.h"
#include "tokenizer/tokenizer.h"
#include "wire/messages.h"

namespace kvc {

// What names the sequence, the same whatever runs with it, before it or in which process.
uint64_t sequence_key(const Experiment& experiment, const Sample& sample);

Job sample_job(const TaskSpec& task, const Sample& sample, const Experiment& experiment, const Tokenizer& tokenizer);

}  // namespace kvc
