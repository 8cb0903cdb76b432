// The parent process of a run: gives jobs to workers and stores their answers. What becomes of a job, one sample of one
// task for the compressors that miss it:
//
//   pending --claim: another run computes it--> others --asked again every second--> pending
//      | claim: mine            | done there: nothing is left
//      v
//   made into ids --refused (too long, ...)--> failed
//      | give: a worker has room
//      v
//   given --answer per compressor--> stored; when all have answered, done
//      | the worker dies, hangs, or answers what cannot be
//      v
//   each compressor alone, at the front of pending; failed if it was alone inside the plugin, or for the second time
//
// A compressor inside which a worker died runs alone from then on; after kMostStuck hangs its other samples fail too.
#include "run/run_experiment.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <optional>

#include "run/check_answer.h"
#include "run/job_maker.h"
#include "run/prompt_work.h"
#include "run/put_cells.h"
#include "run/result_filer.h"
#include "run/run_progress.h"
#include "run/score_stored.h"
#include "store/run_store.h"
#include "text/message.h"
#include "text/nearest.h"
#include "wire/interrupt.h"
#include "wire/worker_process.h"

namespace kvc {
namespace {

constexpr int kPollMs = 200;        // until a signal that came just before a wait is seen
constexpr double kGiveSeconds = 1;  // for jobs that end without a worker, until workers are heard again
constexpr double kAskSeconds = 1;   // between two questions whether another run has done what it took
constexpr int64_t kSizes = -1;      // stands for a sample where sizes are claimed
constexpr int kMostDeadStarts = 3;  // of workers, in a row
constexpr int kMostStuck = 2;       // workers that a compressor may halt; its other samples then fail unasked

struct ForgedAnswer : Error {
  using Error::Error;
};

// The supervisor: the only writer of the store.
class Run {
 public:
  Run(const Grid& grid, const Experiment& experiment, ResultStore& store, const RunWatch& watch)
      : watch_(watch),
        grid_(grid),
        experiment_(experiment),
        store_(store),
        maker_(grid, experiment, &store),
        progress_(grid, experiment) {}

  RunOutcome run() {
    std::vector<const CellRecord*> records;
    for (const auto& cell : grid_.cells) {
      if (cell.runs) records.push_back(&cell.record);
    }
    put_cells(records, experiment_.name, experiment_.config, store_, grid_.is_part);
    for (const auto& cell : grid_.cells) {
      if (cell.record.kind == RunKind::eval && cell.runs)
        outcome_.n_failed += score_stored(cell, grid_.tasks[cell.task], store_);
    }
    RunPlan plan;
    jobs_ = missing_jobs(grid_, &store_, experiment_.fan_out, plan);
    outcome_.n_present = plan.n_present;
    for (auto& job : missing_sizes(grid_, store_, experiment_.sizes)) jobs_.push_back(std::move(job));  // last
    if (jobs_.empty()) return outcome_;
    runs_.emplace(store_.database(), experiment_.name, join(experiment_.devices));
    filer_.emplace(grid_, experiment_, store_, progress_, outcome_);
    guess_work(grid_, experiment_, maker_, jobs_);
    for (const auto& job : jobs_) progress_.plan(job);
    progress_.count(plan.n_missing);
    const size_t n_workers = std::min(static_cast<size_t>(experiment_.workers), jobs_.size());
    const Interrupt interrupt;
    for (size_t i = 0; i < n_workers; ++i) children_.push_back(make_child());
    while (Interrupt::signal() == 0 &&
           (!jobs_.empty() || !others_.empty() ||
            std::any_of(children_.begin(), children_.end(), [](const auto& child) { return child->at_work(); }))) {
      serve();
      progress_.show();
      auto row = progress_.row();
      row.n_failed = outcome_.n_failed;
      runs_->tell(row);
      if (watch_) watch_(row);
    }
    progress_.make_room();
    outcome_.signal = Interrupt::signal();
    filer_.reset();
    runs_->end(outcome_.signal != 0);
    runs_.reset();
    return outcome_;
  }

 private:
  // A worker and its jobs in flight.
  struct Child {
    explicit Child(const WorkerSetUp& set_up) : process(nlohmann::json(set_up)) {}
    WorkerProcess process;
    bool ready = false;                   // has loaded its model
    bool wants = false;                   // has room for a job
    std::map<int64_t, PendingJob> given;  // by job id; their compressors are those not answered yet
    struct Asked {
      Job job;
      Clock::time_point since = Clock::now();
    };
    std::map<int64_t, Asked> asked;  // by the same ids
    bool at_work() const { return !ready || !given.empty(); }
    bool owes(const JobResult& result) const {
      const auto job = given.find(result.job);
      return job != given.end() &&
             std::count(job->second.compressors.begin(), job->second.compressors.end(), result.compressor);
    }
  };

  std::unique_ptr<Child> make_child() const { return std::make_unique<Child>(grid_.worker); }

  void serve() {
    ask_for_others();
    for (auto& child : children_) give(*child);
    std::vector<pollfd> polled;
    for (const auto& child : children_) polled.push_back({child->process.fd(), POLLIN, 0});
    const bool goes_on =
        std::any_of(children_.begin(), children_.end(), [&](const auto& c) { return may_take_next(*c); });
    const int n = ::poll(polled.data(), polled.size(), goes_on ? 0 : kPollMs);
    KVC_CHECK(n >= 0 || errno == EINTR, "poll failed: ", std::strerror(errno));
    for (size_t i = 0; i < polled.size(); ++i) {
      auto& child = *children_[i];
      if (n > 0 && polled[i].revents != 0) {
        for (const auto& message : child.process.receive()) take(child, message);
      }
      if (!child.given.empty() && !child.process.ended()) child.process.end_if_stuck();
      if (child.process.ended()) replace(i);
    }
  }

  // A plugin can write on the worker's socket, too.
  void take(Child& child, const nlohmann::json& message) {
    try {
      if (!child.process.ended() && !understood(child, message))
        child.process.end("stopped: its answer matches no request");
    } catch (const nlohmann::json::exception&) {
      child.process.end("stopped: its answer is not valid");
    } catch (const ForgedAnswer& e) {
      child.process.end(concat("stopped: its answer contradicts its job: ", one_line(e.what())));
    }
  }

  bool understood(Child& child, const nlohmann::json& message) {
    if (message.contains("ready")) {
      if (child.ready) return false;
      KVC_CHECK(message["ready"].get<bool>(), message.value("error", "a worker did not start"));
      child.ready = child.wants = true;
      n_dead_starts_ = 0;
      progress_.ready();
      child.process.set_patience(experiment_.patience);
    } else if (message.contains("more")) {
      if (!child.ready || child.wants) return false;
      child.wants = true;
    } else if (message.contains("at")) {
      progress_.told(message["at"].get<WorkerAt>());
    } else if (message.contains("done")) {
      const auto job = message["done"].get<int64_t>();
      if (!child.given.contains(job) || !child.given.at(job).compressors.empty()) return false;
      child.given.erase(job), child.asked.erase(job);
      progress_.done(job);
    } else {
      const auto result = message.get<JobResult>();
      if (!child.owes(result)) return false;
      check(child.asked.at(result.job), result);
      auto& job = child.given.at(result.job);
      std::erase(job.compressors, result.compressor);
      if (!tries_again(job, result)) filer_->put(job, result);
      progress_.ended(result);
    }
    return true;
  }

  // A compressor's own process that died, of whatever, is started again, and the sample computed once more.
  bool tries_again(const PendingJob& job, const JobResult& result) {
    const auto* failed = std::get_if<FailedResult>(&result.answer);
    if (!failed || failed->process == FailedResult::Process::lives) return false;
    if (failed->process == FailedResult::Process::stuck) ++stuck_[result.compressor];
    if (failed->process == FailedResult::Process::stuck || job.tried) return false;
    auto again = job;
    again.compressors = {result.compressor}, again.tried = true;
    jobs_.push_front(std::move(again));
    progress_.plan(jobs_.front());
    return true;
  }

  // What contradicts the job, a plugin has said in the worker's place: nothing of it is filed.
  void check(const Child::Asked& asked, const JobResult& result) const {
    try {
      check_answer(asked.job, result,
                   {grid_, maker_.tokenizer(), grid_.cells.at(static_cast<size_t>(result.compressor)).record,
                    seconds_since(asked.since)});
    } catch (const Error& e) {
      throw ForgedAnswer(e.what());
    }
  }

  // Whether the worker has room for the next job. What must run alone waits for an idle worker and keeps it to itself.
  bool may_take_next(const Child& child) const {
    if (!child.wants || jobs_.empty()) return false;
    const bool keeps_to_itself = !child.given.empty() && child.given.begin()->second.alone;
    if (keeps_to_itself || (jobs_.front().alone && !child.given.empty())) return false;
    return jobs_.front().sizes.empty() || !samples_under_way();
  }

  // The next job that a worker is needed for. Those before it end here, however many they are: refused prompts, what
  // another run is at, what a stuck compressor would do. They are left now and then, to hear workers and signals.
  void give(Child& child) {
    for (const auto begun = Clock::now(); may_take_next(child) && Interrupt::signal() == 0;) {
      auto pending = std::move(jobs_.front());
      jobs_.pop_front();
      if (auto job = job_of(pending)) return send(child, std::move(*job), std::move(pending));
      if (seconds_since(begun) > kGiveSeconds) return;
    }
  }

  // What a worker is asked; nothing where no compressor is left that has to run.
  std::optional<Job> job_of(PendingJob& pending) {
    if (!pending.sizes.empty() && !filer_->has_result(pending.compressors.front())) {
      progress_.unplan(pending);
      return std::nullopt;
    }
    if (!claim(pending)) return std::nullopt;
    fail_stuck(pending);
    if (!pending.alone) set_crashers_apart(pending);
    if (pending.compressors.empty()) return std::nullopt;
    try {
      return maker_.make(pending);
    } catch (const Error& e) {
      progress_.unplan(pending);
      fail(pending, e.what());
      return std::nullopt;
    }
  }

  void send(Child& child, Job job, PendingJob pending) {
    job.id = next_job_++;
    progress_.given(job, pending);
    child.given.emplace(job.id, std::move(pending));
    child.wants = false;
    child.process.send(nlohmann::json(job));
    child.asked.emplace(job.id, Child::Asked{std::move(job)});
  }

  // What another run was at when it was asked for, now and then: done, or left by a run that died.
  void ask_for_others() {
    progress_.wait_for_others(!others_.empty());
    if (!jobs_.empty() || others_.empty() || seconds_since(asked_) < kAskSeconds) return;
    asked_ = Clock::now();
    for (auto& job : others_) {
      progress_.plan(job);
      jobs_.push_back(std::move(job));
    }
    others_.clear();
    std::erase_if(jobs_, [&](auto& job) { return !claim(job); });
  }

  // Takes the job for this run. What has its result leaves it, and what another run is at waits apart. -> whether
  // anything is left to do
  bool claim(PendingJob& job) {
    auto others = job;
    others.compressors.clear();
    std::vector<int> mine;
    int64_t n_done = 0;
    const auto claims = claims_of(job);
    for (size_t i = 0; i < claims.size(); ++i) {
      const int compressor = job.compressors[i];
      const auto claim = claims[i];
      if (claim == RunStore::Claim::kMine) mine.push_back(compressor);
      if (claim == RunStore::Claim::kTaken) others.compressors.push_back(compressor);
      n_done += claim == RunStore::Claim::kDone;
    }
    auto not_mine = job;
    std::erase_if(not_mine.compressors, [&](int c) { return std::count(mine.begin(), mine.end(), c) > 0; });
    if (!not_mine.compressors.empty()) progress_.unplan(not_mine);
    if (job.sizes.empty()) outcome_.n_present += n_done, progress_.count(-n_done);
    job.compressors = std::move(mine);
    others.was_taken = true;
    if (!others.compressors.empty()) {
      if (!shares_work_) progress_.make_room();
      if (!shares_work_) std::fprintf(stderr, "another run is using this database: they share the work\n");
      shares_work_ = true;
      others_.push_back(std::move(others));
    }
    return !job.compressors.empty();
  }

  // Of each of its compressors.
  std::vector<RunStore::Claim> claims_of(const PendingJob& job) {
    std::vector<std::string> keys;
    for (const int compressor : job.compressors) {
      keys.push_back(
          grid_.cells[job.task * grid_.worker.compressors.size() + static_cast<size_t>(compressor)].record.key);
    }
    if (job.sizes.empty()) {
      return runs_->claim(keys, grid_.tasks[job.task].data.samples[job.sample].id, job.was_taken);
    }
    const auto there = store_.sizes_of(keys.front());  // a job of sizes has one compressor
    const bool is_done = std::all_of(job.sizes.begin(), job.sizes.end(), [&](int64_t n) { return there.contains(n); });
    return is_done ? std::vector{RunStore::Claim::kDone} : runs_->claim(keys, kSizes, job.was_taken);
  }

  // Whether a compressor has a result, and so a size, is known when none is.
  bool samples_under_way() const {
    return std::any_of(children_.begin(), children_.end(), [](const auto& child) {
      return std::any_of(child->given.begin(), child->given.end(),
                         [](const auto& job) { return job.second.sizes.empty(); });
    });
  }

  // The prompt's own fault: for all compressors.
  void fail(const PendingJob& job, const std::string& error) {
    for (const int compressor : job.compressors) fail(job, compressor, error);
  }
  void fail(const PendingJob& job, int compressor, const std::string& error) {
    filer_->put(job, {.compressor = compressor, .answer = FailedResult{error}});
  }

  // What does not come back costs the patience each time, so its other samples are not tried.
  void fail_stuck(PendingJob& job) {
    for (const auto& [compressor, n] : stuck_) {
      if (n < kMostStuck || std::erase(job.compressors, compressor) == 0) continue;
      progress_.unplan({.task = job.task, .sample = job.sample, .compressors = {compressor}, .work = job.work});
      fail(job, compressor, concat("not run: the plugin has already stopped ", n, " times at one step"));
    }
  }

  // A compressor that has killed a worker runs alone from then on: its next crash shall cost nobody else.
  void set_crashers_apart(PendingJob& job) {
    for (const int compressor : crashers_) {
      if (std::erase(job.compressors, compressor) == 0) continue;
      jobs_.push_back(
          {.task = job.task, .sample = job.sample, .compressors = {compressor}, .alone = true, .work = job.work});
    }
  }

  // After a worker's death. With several sequences under way nobody knows whose fault it was: each runs again, alone. A
  // sequence that was alone has failed; where the worker died outside the plugin, only at the second time.
  void replace(size_t i) {
    auto& child = *children_[i];
    KVC_CHECK(child.ready || ++n_dead_starts_ < kMostDeadStarts, "a worker was ", child.process.epitaph(),
              " while it loaded the model, ", kMostDeadStarts, " times in a row");
    const bool inside = child.process.last_entered() >= 0;
    for (auto& [id, job] : child.given) {
      progress_.done(id);
      const bool was_alone = child.given.size() == 1 && job.compressors.size() == 1;
      if (was_alone && (inside || job.tried)) {
        const int compressor = job.compressors.front();
        fail(job, compressor, "the worker was " + child.process.epitaph() + (inside ? " inside the plugin" : ""));
        if (inside) crashers_.insert(compressor);
        if (inside && child.process.was_stuck()) ++stuck_[compressor];
        continue;
      }
      for (const int compressor : job.compressors) {
        jobs_.push_front({.task = job.task,
                          .sample = job.sample,
                          .compressors = {compressor},
                          .alone = true,
                          .tried = was_alone,
                          .sizes = job.sizes,
                          .work = job.work});
        progress_.plan(jobs_.front());
      }
    }
    children_[i] = make_child();
  }

  const RunWatch& watch_;
  const Grid& grid_;
  const Experiment& experiment_;
  ResultStore& store_;
  std::deque<PendingJob> jobs_;
  std::vector<std::unique_ptr<Child>> children_;
  JobMaker maker_;
  RunProgress progress_;
  std::optional<ResultFiler> filer_;  // while there is something to file
  std::optional<RunStore> runs_;
  std::deque<PendingJob> others_;  // what other runs were at when they were asked for
  Clock::time_point asked_ = Clock::now();
  bool shares_work_ = false;
  int64_t next_job_ = 0;
  std::set<int> crashers_;    // compressors inside which a worker has died
  std::map<int, int> stuck_;  // and how often each was stuck there, with a worker of its own
  int n_dead_starts_ = 0;     // workers in a row that died before their model was there
  RunOutcome outcome_;
};

}  // namespace

RunPlan plan_run(const Grid& grid, const Experiment& experiment, ResultStore* store) {
  RunPlan plan;
  missing_jobs(grid, store, experiment.fan_out, plan);
  return plan;
}

RunOutcome run_grid(const Grid& grid, const Experiment& experiment, ResultStore& store, const RunWatch& watch) {
  return Run(grid, experiment, store, watch).run();
}

}  // namespace kvc
