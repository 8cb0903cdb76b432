#include "run/estimate_run.h"

#include <algorithm>
#include <set>

#include "contract/stopwatch.h"
#include "kvc/check.h"
#include "render/numbers.h"
#include "run/prompt_work.h"
#include "wire/worker_process.h"

namespace kvc {
namespace {

constexpr int64_t kTrialPrompt = 256, kTrialAnswer = 16;  // tokens
constexpr double kTrialSeconds = 120;                     // that a trial may take, the model's loading included
constexpr int kOther = -2;                                // a compressor that the grid does not have
constexpr double kUnseen = 0.7;                           // of its limit that an answer gets, as far as is known

constexpr const char* kHow = "a few samples give one: `kvc run` with --limit 4, then --dry-run on the same database";

class RunEstimate {
 public:
  RunEstimate(const Grid& grid, const Experiment& experiment, ResultStore* done, ResultStore* pilot)
      : grid_(grid), experiment_(experiment), done_(done), store_(pilot), maker_(grid, experiment, done) {}

  TimeEstimate run() {
    find_jobs();
    if (jobs_.empty()) return {0.0, "nothing is missing"};
    if (experiment_.kind == RunKind::probe) return {std::nullopt, "no estimate for probes"};
    std::string by;
    if (!learn_times(by)) return {std::nullopt, by};
    guess_work(grid_, experiment_, maker_, jobs_);
    double seconds = 0;
    for (const auto& job : jobs_) {
      seconds += estimate_.left_of(job.work, WorkEstimate::kPrefill).seconds;
      for (const int compressor : job.compressors) seconds += estimate_.left_of(job.work, compressor).seconds;
    }
    const auto n_workers = std::min<size_t>(static_cast<size_t>(experiment_.workers), jobs_.size());
    return {seconds / static_cast<double>(n_workers), by};
  }

  CellEstimates run_cells() {
    CellEstimates result;
    result.cells.resize(grid_.cells.size());
    find_jobs();
    result.by = "nothing is missing";
    if (jobs_.empty()) return result;
    const bool is_known = learn_times(result.by);
    guess_work(grid_, experiment_, maker_, jobs_);
    for (size_t c = 0; c < grid_.cells.size(); ++c) result.cells[c] = estimate_of(grid_.cells[c], is_known);
    return result;
  }

 private:
  void find_jobs() {
    RunPlan plan;
    jobs_ = missing_jobs(grid_, done_, experiment_.fan_out, plan);
  }

  // by: from what; where nothing is learnt, why
  bool learn_times(std::string& by) {
    by = learn_stored();
    std::string why = "the database has no sample of this model";
    if (by.empty()) by = learn_trial(why);
    if (!by.empty()) return true;
    by = concat(why, "; ", kHow);
    return false;
  }

  CellEstimate estimate_of(const Grid::Cell& cell, bool is_known) const {
    CellEstimate result;
    double prefill_seconds = 0, seconds = 0;
    for (const auto& job : jobs_) {
      if (job.task != cell.task || !std::count(job.compressors.begin(), job.compressors.end(), cell.compressor))
        continue;
      ++result.n_missing;
      const auto& work = job.work;
      result.n_tokens = std::max(result.n_tokens, work.context + work.limit + std::max(0.0, work.forced));
      prefill_seconds += estimate_.left_of(work, WorkEstimate::kPrefill).seconds;
      seconds += estimate_.left_of(work, cell.compressor).seconds;
    }
    if (!is_known) return result;
    const auto n_workers = static_cast<double>(experiment_.workers);
    result.prefill_seconds = prefill_seconds / n_workers, result.seconds = seconds / n_workers;
    return result;
  }

  // -> what was learnt from; "" where there is nothing
  std::string learn_stored() {
    if (!store_) return "";
    auto select = store_->database().prepare(
        "SELECT task, plugin, options_json, n_prompt_tokens, n_reused_tokens, n_new_tokens, stop_reason,"
        " prefill_seconds, encode_seconds, attend_seconds + other_seconds FROM sample JOIN cell ON key = cell_key"
        " WHERE status = 'ok' AND kind = 'eval' AND model_json = ?");
    select.bind(1, grid_.cells.front().record.model_json);
    int64_t n = 0;
    bool has_own = false;
    for (; select.step(); ++n) {
      const auto [task, compressor] = place_of(select.text(0), select.text(1), select.text(2));
      const double n_new = static_cast<double>(select.integer(5));
      WorkEstimate::Prompt work;
      work.task = task;
      work.context = static_cast<double>(select.integer(3));
      work.computed = std::max(1.0, work.context - static_cast<double>(select.integer(4)));
      work.limit = task < grid_.tasks.size() ? static_cast<double>(grid_.tasks[task].spec.max_new_tokens) : 0;
      if (work.limit <= 0 || select.text(6) == "scored") work.forced = 0;
      learn(work, compressor, n_new, select.real(7), select.real(8), select.real(9));
      if (work.forced < 0) estimate_.answered(work, compressor, n_new);
      has_own |= compressor != kOther;
    }
    if (n == 0) return "";
    return concat("from the times of ", n, " samples in the database", has_own ? "" : ", of other compressors");
  }

  // encode_seconds: of the prompt and of n_new tokens.
  void learn(const WorkEstimate::Prompt& work, int compressor, double n_new, double prefill_seconds,
             double encode_seconds, double decode_seconds) {
    const double of_prompt = encode_seconds * work.context / std::max(1.0, work.context + n_new);
    if (work.computed > 0) {
      estimate_.measured(work, WorkEstimate::kPrefill, work.computed, work.computed, prefill_seconds);
    }
    if (of_prompt > 0) estimate_.encoded(work, compressor, of_prompt);
    if (n_new > 0) estimate_.measured(work, compressor, n_new, n_new, decode_seconds + encode_seconds - of_prompt);
  }

  // The grid's task, or one after all of them, and its compressor, or kOther.
  std::pair<size_t, int> place_of(const std::string& task, const std::string& plugin,
                                  const std::string& options) const {
    std::pair<size_t, int> place(grid_.tasks.size(), kOther);
    for (const auto& cell : grid_.cells) {
      if (cell.record.task == task) place.first = cell.task;
      if (cell.record.plugin == plugin && cell.record.options_json == options) place.second = cell.compressor;
    }
    return place;
  }

  std::string learn_trial(std::string& why) {
    try {
      Job job = maker_.make(jobs_.front());
      auto ids = jobs_.front().prompt.prefilled();
      ids.resize(std::min(ids.size(), static_cast<size_t>(kTrialPrompt)));
      job.asked = GenerateJob{.prompt = {std::move(ids)},
                              .stop = {.max_new_tokens = kTrialAnswer, .min_new_tokens = kTrialAnswer}};
      job.compressors.clear();
      for (size_t i = 0; i < grid_.worker.compressors.size(); ++i) job.compressors.push_back(static_cast<int>(i));
      return try_out(job, why);
    } catch (const Error& e) {
      why = concat("a trial failed: ", e.what());
      return "";
    }
  }

  std::string try_out(const Job& job, std::string& why) {
    const auto start = Clock::now();
    WorkerProcess worker{nlohmann::json(grid_.worker)};
    const auto next = [&] {
      auto message = worker.next("a trial's worker", [&] { return seconds_since(start) < kTrialSeconds; });
      KVC_CHECK(!message.is_null(), "it took more than ", kTrialSeconds, " s");
      return message;
    };
    const auto ready = next();
    KVC_CHECK(ready.value("ready", false), ready.value("error", "its worker did not start"));
    worker.send(nlohmann::json(job));
    const auto work = work_of(job, grid_.tasks.size(), false);
    bool has_learnt = false;
    for (auto message = next(); !message.contains("done"); message = next()) {
      if (!message.contains("compressor")) continue;
      const auto result = message.get<JobResult>();
      if (!result.measured()) continue;
      const auto& m = result.measured()->measured;
      learn(work, result.compressor, static_cast<double>(m.n_new_tokens), m.prefill_seconds, m.encode_seconds,
            m.attend_seconds + m.other_seconds);
      has_learnt = true;
    }
    if (!has_learnt) why = "no compressor completed a trial";
    if (!has_learnt) return "";
    return concat("from a trial of ", work.context, " + ", kTrialAnswer,
                  " tokens with each compressor, assuming answers of 70 % of their limit");
  }

  const Grid& grid_;
  const Experiment& experiment_;
  ResultStore* done_;
  ResultStore* store_;  // to learn from
  JobMaker maker_;
  std::deque<PendingJob> jobs_;
  WorkEstimate estimate_{kUnseen};
};

}  // namespace

TimeEstimate estimate_run(const Grid& grid, const Experiment& experiment, ResultStore* store) {
  return RunEstimate(grid, experiment, store, store).run();
}

CellEstimates estimate_cells(const Grid& grid, const Experiment& experiment, ResultStore* done, ResultStore* pilot) {
  return RunEstimate(grid, experiment, done, pilot).run_cells();
}

std::string time_line(const TimeEstimate& time, const Experiment& experiment) {
  if (!time.seconds) return concat("no time estimate: ", time.by, "\n");
  return concat("about ", duration_in_words(*time.seconds), " with ", experiment.workers, " worker",
                experiment.workers == 1 ? "" : "s", ", ", time.by, "\n");
}

}  // namespace kvc
