#include "run/estimate_run.h"

#include <algorithm>
#include <set>

#include "record/stopwatch.h"
#include "run/run_progress.h"
#include "wire/worker_process.h"

namespace kvc {
namespace {

constexpr int64_t kTrialPrompt = 256, kTrialAnswer = 16;  // tokens
constexpr double kTrialSeconds = 120;                     // that a trial may take, the model's loading included

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
    if (!learn(by)) return {std::nullopt, by};
    guess_work(grid_, experiment_, maker_, jobs_);
    for (const auto& job : jobs_) estimate_.plan(job.work, job.compressors);
    const auto n_workers = std::min<size_t>(static_cast<size_t>(experiment_.workers), jobs_.size());
    return {*estimate_.cost_left() / static_cast<double>(n_workers), by};
  }

  CellEstimates run_cells() {
    CellEstimates result;
    result.cells.resize(grid_.cells.size());
    find_jobs();
    result.by = "nothing is missing";
    if (jobs_.empty()) return result;
    const bool is_known = learn(result.by);
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
  bool learn(std::string& by) {
    by = learn_stored();
    std::string why = "the database has no sample of this model";
    if (by.empty()) by = learn_trial(why);
    if (!by.empty()) return true;
    by = concat(why, "; ", kHow);
    return false;
  }

  CellEstimate estimate_of(const Grid::Cell& cell, bool is_known) const {
    CellEstimate result;
    auto prompts = estimate_, answers = estimate_;  // with what was learnt
    for (const auto& job : jobs_) {
      if (job.task != cell.task || !std::count(job.compressors.begin(), job.compressors.end(), cell.compressor))
        continue;
      ++result.n_missing;
      const auto& work = job.work;
      result.n_tokens = std::max(result.n_tokens, work.context + work.limit + std::max(0.0, work.forced));
      prompts.plan(work, {});
      answers.plan(work, {cell.compressor});
    }
    if (!is_known) return result;
    const auto n_workers = static_cast<double>(experiment_.workers);
    result.prefill_seconds = prompts.cost_left().value_or(0) / n_workers;
    result.seconds = std::max(0.0, answers.cost_left().value_or(0) / n_workers - *result.prefill_seconds);
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
      const double n_new = static_cast<double>(select.integer(5)), encode = select.real(8);
      WorkEstimate::Prompt work;
      work.task = task;
      work.context = static_cast<double>(select.integer(3));
      work.computed = std::max(1.0, work.context - static_cast<double>(select.integer(4)));
      work.limit = task < grid_.tasks.size() ? static_cast<double>(grid_.tasks[task].spec.max_new_tokens) : 0;
      if (work.limit <= 0 || select.text(6) == "scored") work.forced = 0;
      estimate_.learn_prefill(work, select.real(7));
      const double of_prompt = encode * work.context / std::max(1.0, work.context + n_new);
      estimate_.learn(work, compressor, select.integer(5), of_prompt, select.real(9) + encode - of_prompt,
                      select.text(6) == "limit" || select.text(6) == "context");
      has_own |= compressor >= 0;
    }
    if (n == 0) return "";
    return concat("from the times of ", n, " samples in the database", has_own ? "" : ", of other compressors");
  }

  // The grid's task, or one behind all, and its compressor, or -1.
  std::pair<size_t, int> place_of(const std::string& task, const std::string& plugin,
                                  const std::string& options) const {
    std::pair<size_t, int> place(grid_.tasks.size(), -1);
    for (const auto& cell : grid_.cells) {
      if (cell.record.task == task) place.first = cell.task;
      if (cell.record.plugin == plugin && cell.record.options_json == options) place.second = cell.compressor;
    }
    return place;
  }

  std::string learn_trial(std::string& why) {
    try {
      Job job = maker_.make(jobs_.front());
      if (!job.scored.empty()) job.prompt_ids = job.scored.front().prompt_ids;
      job.scored.clear();
      job.prompt_ids.resize(std::min(job.prompt_ids.size(), static_cast<size_t>(kTrialPrompt)));
      job.n_question_tokens = job.n_shared_tokens = 0, job.reference = -1;
      job.max_new_tokens = job.min_new_tokens = kTrialAnswer;
      job.stop_strings.clear();
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
      if (!result.error.empty()) continue;
      const auto& m = result.measured;
      const double of_prompt = m.encode_seconds * work.context / (work.context + static_cast<double>(kTrialAnswer));
      auto forced = work;
      forced.forced = 0;  // how long answers get is not learnt from it
      estimate_.learn_prefill(forced, m.prefill_seconds);
      estimate_.learn(forced, result.compressor, m.n_new_tokens, of_prompt,
                      m.encode_seconds - of_prompt + m.attend_seconds + m.other_seconds, false);
      has_learnt = true;
    }
    if (!has_learnt) why = "no compressor completed a trial";
    if (!has_learnt) return "";
    return concat("from a trial of ", job.prompt_ids.size(), " + ", kTrialAnswer,
                  " tokens with each compressor, assuming answers of 70 % of their limit");
  }

  const Grid& grid_;
  const Experiment& experiment_;
  ResultStore* done_;
  ResultStore* store_;  // to learn from
  JobMaker maker_;
  std::deque<PendingJob> jobs_;
  WorkEstimate estimate_;
};

}  // namespace

TimeEstimate estimate_run(const Grid& grid, const Experiment& experiment, ResultStore* store) {
  return RunEstimate(grid, experiment, store, store).run();
}

CellEstimates estimate_cells(const Grid& grid, const Experiment& experiment, ResultStore* done, ResultStore* pilot) {
  return RunEstimate(grid, experiment, done, pilot).run_cells();
}

}  // namespace kvc
