#include "run/run_experiment.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <optional>

#include "run/encode_prompt.h"
#include "run/interrupt.h"
#include "run/progress.h"
#include "run/sample_record.h"
#include "run/worker_process.h"

namespace kvc {
namespace {

constexpr int kPatienceMs = 200;  // until a signal that came just before a wait is seen

// One sample of one task for the compressors that miss it.
struct PendingJob {
  size_t task, sample;
  std::vector<int> compressors;
  bool alone = false;  // with one compressor and nothing beside it: a worker died with it among others
  bool tried = false;  // a worker died of it alone, outside the plugin
  EncodedPrompt prompt = {};
};

std::deque<PendingJob> missing_jobs(const Grid& grid, ResultStore* store, bool fan_out, RunPlan& plan) {
  std::vector<std::set<int64_t>> finished;
  for (const auto& cell : grid.cells) {
    if (!store) {
      finished.emplace_back();
    } else if (cell.record.kind == "probe") {
      finished.push_back(store->probed_samples(cell.record.key));
    } else {
      finished.push_back(store->finished_samples(cell.record.key));
    }
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
      if (job.compressors.empty()) continue;
      if (fan_out) {
        jobs.push_back(std::move(job));
      } else {
        for (const int compressor : job.compressors) jobs.push_back({task, sample, {compressor}});
      }
    }
  }
  plan.n_prompts = static_cast<int64_t>(jobs.size());
  return jobs;
}

using Ids = std::vector<int64_t>;

size_t n_alike(const Ids& a, const Ids& b) {
  return static_cast<size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
}

// Ids that are prefilled.
const Ids& prefilled(const EncodedPrompt& prompt) {
  return prompt.scored.empty() ? prompt.ids : prompt.scored.front().prompt_ids;
}

// The supervisor: the only writer of the store.
class Run {
 public:
  Run(const Grid& grid, const Experiment& experiment, ResultStore& store)
      : grid_(grid),
        experiment_(experiment),
        store_(store),
        tokenizer_(Tokenizer::load(grid.worker.model)),
        shared_ids_(grid.tasks.size()) {}

  RunOutcome run() {
    for (const auto& cell : grid_.cells) store_.put_cell(cell.record);
    RunPlan plan;
    jobs_ = missing_jobs(grid_, &store_, experiment_.fan_out, plan);
    outcome_.n_present = plan.n_present;
    if (jobs_.empty()) return outcome_;
    progress_.emplace(plan.n_missing);
    const size_t n_workers = std::min(static_cast<size_t>(experiment_.workers), jobs_.size());
    const Interrupt interrupt;
    for (size_t i = 0; i < n_workers; ++i) desks_.push_back(std::make_unique<Desk>(grid_.worker));
    while (Interrupt::signal() == 0 &&
           (!jobs_.empty() ||
            std::any_of(desks_.begin(), desks_.end(), [](const auto& desk) { return desk->at_work(); }))) {
      serve();
    }
    outcome_.signal = Interrupt::signal();
    progress_.reset();
    return outcome_;
  }

 private:
  // A worker and what it is at.
  struct Desk {
    explicit Desk(const WorkerSetUp& set_up) : process(nlohmann::json(set_up)) {}
    WorkerProcess process;
    bool ready = false;                   // has loaded its model
    bool wants = false;                   // has room for a job
    std::map<int64_t, PendingJob> given;  // by job id; their compressors are those not answered yet
    bool at_work() const { return !ready || !given.empty(); }
  };

  EncodedPrompt encode(size_t task, size_t sample) const {
    const auto& t = grid_.tasks[task];
    return encode_prompt(t.spec, t.data, t.data.samples[sample], tokenizer_,
                         {&t.chat, t.system_message, grid_.context, experiment_.max_prompt_tokens});
  }

  // Ids that the task's first two prompts begin with alike; none where one of them cannot be encoded.
  const Ids& shared_ids(size_t task) {
    auto& shared = shared_ids_[task];
    if (shared) return *shared;
    shared.emplace();
    if (grid_.tasks[task].data.samples.size() < 2) return *shared;
    try {
      *shared = prefilled(encode(task, 0));
      shared->resize(n_alike(*shared, prefilled(encode(task, 1))));
    } catch (const Error&) {
      shared->clear();  // the sample itself says why, when it is its turn
    }
    return *shared;
  }

  void serve() {
    for (auto& desk : desks_) give(*desk);
    std::vector<pollfd> polled;
    for (const auto& desk : desks_) polled.push_back({desk->process.fd(), POLLIN, 0});
    const int n = ::poll(polled.data(), polled.size(), kPatienceMs);
    KVC_CHECK(n >= 0 || errno == EINTR, "poll failed: ", std::strerror(errno));
    if (n <= 0) return;
    for (size_t i = 0; i < polled.size(); ++i) {
      if (polled[i].revents == 0) continue;
      for (const auto& message : desks_[i]->process.receive()) take(*desks_[i], message);
      if (desks_[i]->process.ended()) replace(i);
    }
  }

  void take(Desk& desk, const nlohmann::json& message) {
    if (message.contains("ready")) {
      KVC_CHECK(message["ready"].get<bool>(), message.value("error", "a worker did not start"));
      desk.ready = desk.wants = true;
    } else if (message.contains("more")) {
      desk.wants = true;
    } else if (message.contains("done")) {
      desk.given.erase(message["done"].get<int64_t>());
    } else {
      const auto result = message.get<JobResult>();
      auto& job = desk.given.at(result.job);
      std::erase(job.compressors, result.compressor);
      put(job, result);
    }
  }

  // The next job, where the worker has room. What must run alone waits for an empty desk and keeps it to itself.
  void give(Desk& desk) {
    if (!desk.wants || jobs_.empty()) return;
    const bool keeps_to_itself = !desk.given.empty() && desk.given.begin()->second.alone;
    if (keeps_to_itself || (jobs_.front().alone && !desk.given.empty())) return;
    auto pending = std::move(jobs_.front());
    jobs_.pop_front();
    if (!pending.alone) set_crashers_apart(pending);
    if (pending.compressors.empty()) return give(desk);
    const auto& task = grid_.tasks[pending.task];
    const auto& sample = task.data.samples[pending.sample];
    Job job;
    try {
      pending.prompt = encode(pending.task, pending.sample);
      for (const auto& text : task.spec.stop_tokens) job.stop_ids.push_back(tokenizer_.encode(text, false).back());
    } catch (const Error& e) {
      fail(pending, e.what());
      return give(desk);
    }
    job.id = next_job_++;
    const auto& ids = prefilled(pending.prompt);
    job.n_shared_tokens = static_cast<int64_t>(n_alike(shared_ids(pending.task), ids));
    job.scored = pending.prompt.scored;
    if (job.scored.empty()) job.prompt_ids = ids;
    // The sequence's own randomness: the same whatever runs beside it, before it or in which process.
    job.sequence_key = static_cast<uint64_t>(experiment_.seed) * 0x9e3779b97f4a7c15u + static_cast<uint64_t>(sample.id);
    job.compressors = pending.compressors;
    job.stop_strings = task.spec.stop;
    job.max_new_tokens = task.spec.max_new_tokens;
    job.min_new_tokens = task.spec.min_new_tokens;
    if (experiment_.kind == "probe") {
      job.scored.clear();  // of a task of choices the context is looked into
      job.prompt_ids = ids;
      job.probe = probe_of(pending.task, sample);
    }
    desk.given.emplace(job.id, std::move(pending));
    desk.wants = false;
    desk.process.send(nlohmann::json(job));
  }

  JobProbe probe_of(size_t task, const Sample& sample) {
    JobProbe probe{experiment_.probe, {}, {}};
    const auto cell =
        std::find_if(grid_.cells.begin(), grid_.cells.end(), [&](const auto& c) { return c.task == task; });
    auto settings = nlohmann::json::parse(cell->record.generation_json);
    settings.erase("probe");  // as the eval cell has them
    probe.answer_ids = store_.full_precision_answer(cell->record, settings.dump(), sample.id);
    if (experiment_.dump.empty()) return probe;
    auto name = concat(cell->record.task, "-", sample.id);
    std::replace(name.begin(), name.end(), '/', '_');
    std::filesystem::create_directories(experiment_.dump);
    probe.dump = (std::filesystem::absolute(experiment_.dump) / name).string();
    return probe;
  }

  // The prompt's own fault: for all compressors.
  void fail(const PendingJob& job, const std::string& error) {
    for (const int compressor : job.compressors) {
      JobResult failed;
      failed.compressor = compressor;
      failed.error = error;
      put(job, failed);
    }
  }

  // A compressor that has killed a worker runs alone from then on: its next crash shall cost nobody else.
  void set_crashers_apart(PendingJob& job) {
    for (const int compressor : crashers_) {
      if (std::erase(job.compressors, compressor) == 0) continue;
      jobs_.push_back({job.task, job.sample, {compressor}, true});
    }
  }

  // After a worker's death. With several sequences under way nobody knows whose fault it was: each runs again, alone. A
  // sequence that was alone has failed; where the worker died outside the plugin, only at the second time.
  void replace(size_t i) {
    auto& desk = *desks_[i];
    KVC_CHECK(desk.ready, "a worker ", desk.process.epitaph(), " while it loaded the model");
    const bool inside = desk.process.last_entered() >= 0;
    for (auto& [id, job] : desk.given) {
      const bool was_alone = desk.given.size() == 1 && job.compressors.size() == 1;
      if (was_alone && (inside || job.tried)) {
        JobResult failed;
        failed.compressor = job.compressors.front();
        failed.error = "the worker was " + desk.process.epitaph() + (inside ? " inside the plugin" : "");
        put(job, failed);
        if (inside) crashers_.insert(failed.compressor);
        continue;
      }
      for (const int compressor : job.compressors) {
        jobs_.push_front({job.task, job.sample, {compressor}, true, was_alone});
      }
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
    if (experiment_.kind == "probe") return put_probe(cell, record, result);
    record.prompt = job.prompt.text.empty() ? render_prompt(task.spec, task.data, sample).text : job.prompt.text;
    record.gold = sample.gold;
    record.status = "ok";
    record.error = result.error;
    try {
      if (record.error.empty()) {
        add_measured(result, job.prompt, record);
        add_scores(result, job.prompt, task.spec, sample, scorer_, record);
      }
    } catch (const Error& e) {  // an extractor's pattern ran into its limit, a scorer's dictionary is missing
      record.error = e.what();
    }
    if (!record.error.empty()) report_failure(record, cell);
    store_.put_sample(record);
    ++outcome_.n_run;
    progress_->advance(cell.task + " " + cell.plugin);
  }

  // A probe that failed leaves nothing: the same command tries it again.
  void put_probe(const CellRecord& cell, SampleRecord& record, const JobResult& result) {
    record.error = result.error;
    std::vector<ProbeRow> rows;
    for (const auto& v : result.probe) rows.push_back({v.measure, v.layer, v.head, v.tensor, v.step, v.value});
    if (rows.empty()) {  // no measure applied, which is a finding too
      rows.push_back({experiment_.probe.measures.front(), -1, -1, "", -1, std::nan("")});
    }
    if (record.error.empty()) {
      store_.put_probe(cell.key, record.sample, rows);
    } else {
      report_failure(record, cell);
    }
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

  const Grid& grid_;
  const Experiment& experiment_;
  ResultStore& store_;
  std::deque<PendingJob> jobs_;
  std::vector<std::unique_ptr<Desk>> desks_;
  Tokenizer tokenizer_;
  std::vector<std::optional<Ids>> shared_ids_;  // of each task's prompts
  int64_t next_job_ = 0;
  std::set<int> crashers_;  // compressors inside which a worker has died
  std::optional<Progress> progress_;
  AnswerScorer scorer_;
  RunOutcome outcome_;
};

}  // namespace

RunPlan plan_run(const Grid& grid, const Experiment& experiment, ResultStore* store) {
  RunPlan plan;
  missing_jobs(grid, store, experiment.fan_out, plan);
  return plan;
}

RunOutcome run_grid(const Grid& grid, const Experiment& experiment, ResultStore& store) {
  return Run(grid, experiment, store).run();
}

}  // namespace kvc
