// A sample's row, from what the worker measured.
#pragma once

#include "prompt/encode_prompt.h"
#include "scoring/answer_scorer.h"
#include "store/result_store.h"
#include "wire/messages.h"

namespace kvc {

// The scores of a generation as it is stored, in the task's order; no model. Of a task that chooses the generation is
// the choices with their likelihoods. Throws Error where an extractor's pattern runs into its limit, or it cannot read
// the gold, EnvironmentError where a scorer's dictionary is missing.
std::vector<ScoreRow> scores_of(const TaskSpec& task, const std::string& generation, const std::string& gold,
                                AnswerScorer& scorer);

// Each score once more for each bucket that the sample is in, as "<extractor>/<bucket>".
void add_buckets(const std::vector<std::string>& buckets, std::vector<ScoreRow>& scores);

// All of what was generated or scored, and its scores; the likelihoods of a task that chooses are its generation.
// Throws as scores_of, the rest of the record then being there.
void add_result(const JobResult& result, const EncodedPrompt& prompt, const TaskSpec& task, const Sample& sample,
                AnswerScorer& scorer, SampleRecord& record);

}  // namespace kvc
