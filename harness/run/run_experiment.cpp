#include "run/run_experiment.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <deque>
#include <memory>
#include <optional>

#include "run/progress.h"
#include "run/worker_process.h"

namespace kvc {
namespace {

// One sample of one task for the compressors that miss it.
struct PendingJob {
  size_t task, sample;
  std::vector<int> compressors;
  bool tried = false;  // a worker died of it outside any plugin
};

std::deque<PendingJob> missing_jobs(const Grid& grid, ResultStore* store, RunPlan& plan) {
  std::vector<std::set<int64_t>> finished;
  for (const auto& cell : grid.cells) {
    finished.push_back(store ? store->finished_samples(cell.record.key) : std::set<int64_t>{});
  }
  std::deque<PendingJob> jobs;
  for (size_t task = 0; task < grid.tasks.size(); ++task) {
    for (size_t sample = 0; sample < grid.tasks[task].data.samples.size(); ++sample) {
      PendingJob job{task, sample, {}};
      for (size_t c = 0; c < grid.cells.size(); ++c) {
        if (grid.cells[c].task != task) continue;
        if (finished[c].contains(grid.tasks[task].data.samples[sample].id)) {
          ++plan.n_present;
        } else {
          job.compressors.push_back(grid.cells[c].compressor);
        }
      }
      plan.n_missing += static_cast<int64_t>(job.compressors.size());
      if (!job.compressors.empty()) jobs.push_back(std::move(job));
    }
  }
  plan.n_prompts = static_cast<int64_t>(jobs.size());
  return jobs;
}

ChatText prompt_of(const Grid::Task& task, const Sample& sample) {
  return render_turn(task.chat, task.system_message, render_prompt(task.spec, task.data, sample).text);
}

// The supervisor: the only writer of the store.
class Run {
 public:
  Run(const Grid& grid, const Experiment& experiment, ResultStore& store)
      : grid_(grid), experiment_(experiment), store_(store) {}

  RunOutcome run() {
    for (const auto& cell : grid_.cells) store_.put_cell(cell.record);
    RunPlan plan;
    jobs_ = missing_jobs(grid_, &store_, plan);
    outcome_.n_present = plan.n_present;
    if (jobs_.empty()) return outcome_;
    progress_.emplace(plan.n_missing);
    const size_t n_workers = std::min(static_cast<size_t>(experiment_.workers), jobs_.size());
    for (size_t i = 0; i < n_workers; ++i) desks_.push_back(std::make_unique<Desk>(grid_.worker));
    while (std::any_of(desks_.begin(), desks_.end(), [](const auto& desk) { return !desk->dismissed; })) serve();
    progress_.reset();
    return outcome_;
  }

 private:
  // A worker and what it is at.
  struct Desk {
    explicit Desk(const WorkerSetUp& set_up) : process(nlohmann::json(set_up)) {}
    WorkerProcess process;
    bool ready = false;             // has loaded its model
    bool dismissed = false;         // no work left for it
    std::optional<PendingJob> job;  // its compressors are those not answered yet
  };

  void serve() {
    std::vector<pollfd> polled;
    for (const auto& desk : desks_) polled.push_back({desk->dismissed ? -1 : desk->process.fd(), POLLIN, 0});
    while (::poll(polled.data(), polled.size(), -1) < 0) {
      KVC_CHECK(errno == EINTR, "poll failed");
    }
    for (size_t i = 0; i < polled.size(); ++i) {
      if (polled[i].fd < 0 || polled[i].revents == 0) continue;
      for (const auto& message : desks_[i]->process.receive()) take(*desks_[i], message);
      if (desks_[i]->process.ended()) replace(i);
    }
  }

  void take(Desk& desk, const nlohmann::json& message) {
    if (message.contains("ready")) {
      KVC_CHECK(message["ready"].get<bool>(), message.value("error", "a worker did not start"));
      desk.ready = true;
      give(desk);
    } else if (message.contains("done")) {
      desk.job.reset();
      give(desk);
    } else {
      const auto result = message.get<JobResult>();
      std::erase(desk.job->compressors, result.compressor);
      put(*desk.job, result);
    }
  }

  void give(Desk& desk) {
    if (jobs_.empty()) {
      desk.dismissed = true;
      return;
    }
    desk.job = std::move(jobs_.front());
    jobs_.pop_front();
    const auto& task = grid_.tasks[desk.job->task];
    const auto& sample = task.data.samples[desk.job->sample];
    Job job;
    auto [text, add_special_tokens] = prompt_of(task, sample);
    job.prompt = std::move(text);
    job.add_special_tokens = add_special_tokens;
    // The sequence's own randomness: the same whatever runs beside it, before it or in which process.
    job.sequence_key = static_cast<uint64_t>(experiment_.seed) * 0x9e3779b97f4a7c15u + static_cast<uint64_t>(sample.id);
    job.compressors = desk.job->compressors;
    job.stop_strings = task.spec.stop;
    job.max_new_tokens = task.spec.max_new_tokens;
    desk.process.send(nlohmann::json(job));
  }

  // After a worker's death: the sample that its plugin was working on has failed, the rest of its job goes back. A
  // death outside any plugin is forgiven once; after that, all that the job still asked for has failed.
  void replace(size_t i) {
    auto& desk = *desks_[i];
    KVC_CHECK(desk.ready, "a worker ", desk.process.epitaph(), " while it loaded the model");
    if (desk.job) {
      const int entered = desk.process.last_entered();
      auto rest = *desk.job;
      const bool try_again = entered < 0 && !rest.tried;  // perhaps not this job's fault
      rest.tried = rest.tried || entered < 0;
      for (const int compressor : desk.job->compressors) {
        if (try_again || (entered >= 0 && compressor != entered)) continue;
        JobResult failed;
        failed.compressor = compressor;
        failed.error = "the worker was " + desk.process.epitaph() + (entered >= 0 ? " inside the plugin" : "");
        std::erase(rest.compressors, compressor);
        put(rest, failed);
      }
      if (!rest.compressors.empty()) jobs_.push_front(std::move(rest));
    }
    desks_[i] = std::make_unique<Desk>(grid_.worker);
  }

  const Grid::Cell& cell_of(size_t task, int compressor) const {
    return *std::find_if(grid_.cells.begin(), grid_.cells.end(),
                         [&](const auto& cell) { return cell.task == task && cell.compressor == compressor; });
  }

  void put(const PendingJob& job, const JobResult& result) {
    const auto& cell = cell_of(job.task, result.compressor).record;
    const auto& task = grid_.tasks[job.task];
    const auto& sample = task.data.samples[job.sample];
    SampleRecord record;
    record.cell_key = cell.key;
    record.sample = sample.id;
    record.prompt = prompt_of(task, sample).text;
    record.gold = sample.gold;
    record.status = "ok";
    record.error = result.error;
    try {
      if (record.error.empty()) fill(record, result, task.spec);
    } catch (const Error& e) {  // an extractor's pattern ran into its limit
      record.error = e.what();
    }
    if (!record.error.empty()) report_failure(record, cell);
    store_.put_sample(record);
    ++outcome_.n_run;
    progress_->advance(cell.task + " " + cell.plugin);
  }

  void report_failure(SampleRecord& record, const CellRecord& cell) {
    record.status = "failed";
    record.error = record.error.substr(0, record.error.find('\n'));
    ++outcome_.n_failed;
    progress_->make_room();
    std::fprintf(stderr, "failed: %s, sample %lld, %s (%s): %s\n", cell.task.c_str(),
                 static_cast<long long>(record.sample), cell.plugin.c_str(), cell.options_label.c_str(),
                 record.error.c_str());
  }

  static void fill(SampleRecord& record, const JobResult& result, const TaskSpec& task) {
    for (const auto& extractor : task.extractors) {
      const auto answer = extract_answer(extractor, result.text);
      record.scores.push_back({extractor.name, answer, score_answer(extractor, answer, record.gold)});
    }
    record.generation = result.text;
    record.token_ids_json = nlohmann::json(result.ids).dump();
    record.stop_reason = result.stop_reason;
    record.n_prompt_tokens = result.n_prompt_tokens;
    record.n_new_tokens = static_cast<int64_t>(result.ids.size());
    for (const auto& row : result.bytes) record.bytes.push_back({row.layer, row.tensor, row.kind, row.bytes});
    record.kv_bytes = result.kv_bytes;
    record.kv_bytes_fp16 = result.kv_bytes_fp16;
    record.paper_bytes = result.paper_bytes;
    record.n_encoded_tokens = result.n_encoded_tokens;
    record.k_error = result.k_error;
    record.v_error = result.v_error;
    record.peak_weights_bytes = result.weights_bytes;
    record.peak_kv_bytes = result.kv_bytes;
    record.peak_workspace_bytes = result.workspace_bytes;
    record.prefill_seconds = result.prefill_seconds;
    record.encode_seconds = result.encode_seconds;
    record.attend_seconds = result.attend_seconds;
    record.other_seconds = result.other_seconds;
  }

  const Grid& grid_;
  const Experiment& experiment_;
  ResultStore& store_;
  std::deque<PendingJob> jobs_;
  std::vector<std::unique_ptr<Desk>> desks_;
  std::optional<Progress> progress_;
  RunOutcome outcome_;
};

}  // namespace

RunPlan plan_run(const Grid& grid, ResultStore* store) {
  RunPlan plan;
  missing_jobs(grid, store, plan);
  return plan;
}

RunOutcome run_grid(const Grid& grid, const Experiment& experiment, ResultStore& store) {
  return Run(grid, experiment, store).run();
}

}  // namespace kvc
