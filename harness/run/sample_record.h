// A sample's row, from what the worker measured.
#pragma once

#include "run/encode_prompt.h"
#include "run/worker.h"
#include "store/result_store.h"
#include "task/answer_scorer.h"

namespace kvc {

// Text, ids, tokens, bytes, errors and times.
void add_measured(const JobResult& result, const EncodedPrompt& prompt, SampleRecord& record);

// Each score once, and once more for each bucket that the sample is in. Of a task that chooses, the generation becomes
// the choices with their likelihoods. Throws Error where an extractor's pattern runs into its limit, EnvironmentError
// where a scorer's dictionary is missing.
void add_scores(const JobResult& result, const EncodedPrompt& prompt, const TaskSpec& task, const Sample& sample,
                AnswerScorer& scorer, SampleRecord& record);

}  // namespace kvc
