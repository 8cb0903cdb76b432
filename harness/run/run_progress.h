// What a run tells of itself while it goes: what its workers are at, tokens a second, and the time left.
#pragma once

#include <deque>
#include <set>
#include <vector>

#include "record/stopwatch.h"
#include "run/job_maker.h"
#include "run/progress.h"
#include "run/work_estimate.h"
#include "store/run_store.h"

namespace kvc {

// What a job costs, as it is known once its prompt is encoded.
WorkEstimate::Prompt work_of(const Job& job, size_t task, bool share_prefix);

// What jobs whose prompts are not encoded yet will cost, by the length of their texts: into their `work`. A task's
// first prompt says how many characters a token has, and how many tokens are read behind it.
void guess_work(const Grid& grid, const Experiment& experiment, JobMaker& maker, std::deque<PendingJob>& jobs);

class RunProgress {
 public:
  RunProgress(const Grid& grid, const Experiment& experiment) : grid_(grid), experiment_(experiment) {}

  // Jobs that will be given, or not after all, with their work as guessed.
  void plan(const PendingJob& job);
  void unplan(const PendingJob& job);
  void ready();  // a worker has loaded its model
  void given(const Job& job, const PendingJob& pending);
  void told(const WorkerAt& at);
  void ended(const PendingJob& job, const JobResult& result);
  void done(int64_t job);  // or lost with its worker
  void show();
  void make_room() { progress_.make_room(); }
  RunRow row() const;  // what others may know of it
  void wait_for_others(bool waits) { waits_ = waits; }
  void count(int64_t n_samples) { n_total_ += n_samples; }  // that are to be run
  void count_done() { ++n_done_; }                          // a sample

  std::optional<double> seconds_left() const;  // estimated anew twice a second at most

 private:
  std::string doing() const;
  std::optional<double> new_estimate() const;
  double seconds_at_work() const;

  const Grid& grid_;
  const Experiment& experiment_;
  Progress progress_;
  WorkEstimate estimate_;
  std::optional<Clock::time_point> ready_;
  Clock::time_point told_{};
  double seconds_told_ = 0;  // at work, when it was last told how far it is
  int64_t n_done_ = 0, n_total_ = 0, n_prompts_ = 0, n_prompts_begun_ = 0;
  double n_prefilled_ = 0;                   // tokens
  mutable std::optional<double> estimated_;  // seconds left, when it was last estimated
  mutable Clock::time_point estimated_at_{};
  bool is_warm_ = false, waits_ = false;
  std::set<int64_t> prefilled_;          // jobs under way whose prompts are computed
  std::map<int64_t, PendingJob> given_;  // by id; without their prompts
  std::map<int64_t, Clock::time_point> since_;
};

}  // namespace kvc
