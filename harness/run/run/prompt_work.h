// How many tokens prompts and answers have, before and after prompts are encoded.
#pragma once

#include <deque>

#include "run/job_maker.h"
#include "run/pending_jobs.h"

namespace kvc {

// Of a job, whose prompt is encoded.
WorkEstimate::Prompt work_of(const Job& job, size_t task, bool share_prefix);

// Of jobs that are not encoded yet, into their `work`: by the lengths of their texts, as the task's first prompt says
// how many characters a token has and how many tokens are read after it.
void guess_work(const Grid& grid, const Experiment& experiment, JobMaker& maker, std::deque<PendingJob>& jobs);

}  // namespace kvc
