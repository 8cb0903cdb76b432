// What a run shows while it goes on: samples and tokens done, tokens per second, the task, the time left.
#pragma once

#include <map>

#include "contract/stopwatch.h"
#include "run/pending_jobs.h"
#include "run/progress.h"
#include "store/run_store.h"

namespace kvc {

class RunProgress {
 public:
  RunProgress(const Grid& grid, const Experiment& experiment) : grid_(grid), experiment_(experiment) {}

  // Jobs that will be given, or not after all, with their work as guessed.
  void plan(const PendingJob& job);
  void unplan(const PendingJob& job) { estimate_.plan(job.work, job.compressors, -1); }
  void ready();  // a worker has loaded its model
  void given(const Job& job, const PendingJob& pending);
  void told(const WorkerAt& at);
  void ended(const JobResult& result);
  void done(int64_t job) { given_.erase(job); }  // or lost with its worker
  void show();
  void make_room() { progress_.make_room(); }
  RunRow row() const;  // for others, as last shown
  void wait_for_others(bool waits) { waits_ = waits; }
  void count(int64_t n_samples) { n_total_ += n_samples; }  // that are to be run
  void count_done() { ++n_done_; }                          // a sample

 private:
  struct Told {
    double n = 0, seconds = 0;  // tokens, and what they and encoding the prompt have taken
  };
  struct UnderWay {
    size_t task;
    bool has_sizes;
    WorkEstimate::Prompt work;
    std::map<int, Told> told = {{WorkEstimate::kPrefill, {}}};  // by compressor, of those that have not answered
    Clock::time_point since = Clock::now();
  };
  void hear(int64_t job, int compressor, double n, double seconds);
  void estimate();
  std::string doing() const;
  double seconds_at_work() const { return ready_ ? seconds_since(*ready_) : 0; }

  const Grid& grid_;
  const Experiment& experiment_;
  Progress progress_;
  WorkEstimate estimate_;
  int64_t n_done_ = 0, n_total_ = 0, n_prompts_ = 0, n_prompts_begun_ = 0;
  std::map<int64_t, UnderWay> given_;  // by id
  bool waits_ = false;
  std::optional<Clock::time_point> ready_;
  double told_at_ = 0;  // seconds at work, when a worker last told how far it is
  Clock::time_point estimated_{};
  double share_ = 0;              // of all tokens that are done
  std::optional<double> end_at_;  // seconds at work, as estimated
};

}  // namespace kvc
