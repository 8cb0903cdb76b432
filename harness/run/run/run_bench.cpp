#include "run/run_bench.h"

#include <cstdio>
#include <optional>

#include "checkpoint/model_config.h"
#include "experiment/grid.h"
#include "experiment/model_hashes.h"
#include "experiment/open_compressor.h"
#include "experiment/provenance.h"
#include "plugin_loader/calibration.h"
#include "run/find_capacity.h"
#include "run/progress.h"
#include "run/put_cells.h"
#include "run/work_estimate.h"
#include "store/run_store.h"
#include "text/files.h"
#include "wire/interrupt.h"

namespace kvc {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// The model, as far as a cell needs it.
struct Shape {
  ModelShape shape;
  std::string name, model_label;  // of the task and of the model, for tables
  json hashes;
  std::string identity;
};

// subject: gets the path of its file.
Shape shape_of(const BenchExperiment& experiment, const Paths& paths, BenchSubject& subject) {
  Shape found;
  if (subject.is_layer()) {
    found.shape = {.n_heads = subject.n_heads, .n_kv_heads = subject.n_kv_heads, .head_dim = subject.head_dim};
    found.name = concat("layer ", subject.n_heads, "/", subject.n_kv_heads, "/", subject.head_dim);
    found.model_label = "single layer";
    found.hashes = json::object();
    return found;
  }
  const bool is_drawn = subject.model.empty();
  found.model_label = is_drawn ? subject.config : subject.model;
  auto& file = is_drawn ? subject.config : subject.model;
  file = (experiment.model_path.empty() ? below_root(paths, file) : experiment.model_path).string();
  KVC_CHECK(is_drawn ? fs::is_regular_file(file) : is_model_path(file), "bench: ", is_drawn ? "config" : "model", " '",
            found.model_label, "': no such ", is_drawn ? "file" : "folder or .gguf file");
  found.shape = load_model_config(file).shape();
  found.name = "model";
  found.hashes = is_drawn ? json{{"config.json", sha256_file(file)}, {"weights", "random"}} : hash_model(file);
  if (!is_drawn) found.identity = model_identity(found.hashes);
  return found;
}

// What a time depends on beside the machine's load.
json settings_of(const BenchExperiment& experiment, const json& machine) {
  json settings = experiment.subject;
  for (const char* name : {"model", "config"}) settings.erase(name);  // their hashes stand beside
  if (settings["device"] == "cpu") settings.erase("device");          // as keys have always had it
  settings["kind"] = to_string(experiment.kind);
  settings["machine"] = {{"cpu", machine["cpu"]}, {"n_cores", machine["n_cores"]}};
  return settings;
}

RepeatRecord record_of(const BenchResult& result) {
  RepeatRecord record;
  const auto& seconds = result.seconds;
  record.timings = {{"prefill", "all", seconds.prefill},
                    {"encode", "all", seconds.encode},
                    {"attend", "all", seconds.attend},
                    {"other", "all", seconds.other},
                    {"total", "all", seconds.total()}};
  for (const auto& [part, s] : seconds.encode_parts) record.timings.push_back({"encode", part, s});
  for (const auto& [part, s] : seconds.attend_parts) record.timings.push_back({"attend", part, s});
  const auto& memory = result.memory;
  record.memory = {{"weights", memory.weights},
                   {"kv", memory.kv},
                   {"workspace", memory.workspace},
                   {"other", memory.other},
                   {"peak", memory.peak()}};
  record.read_bytes = memory.kv;
  record.read_seconds = result.read_seconds;
  return record;
}

bool keep_on() { return Interrupt::signal() == 0; }

std::vector<CapacityRecord> rows_of(const CapacitySearch& search) {
  std::vector<CapacityRecord> rows;
  const int64_t n_tokens = search.n_prompt_tokens + search.n_new_tokens;
  if (search.max_batch > 0) rows.push_back({"max_batch", "tried", search.limit_bytes, n_tokens, 0});
  if (search.max_context > 0) rows.push_back({"max_context", "tried", search.limit_bytes, 0, 0});
  return rows;
}

class BenchRun {
 public:
  BenchRun(const BenchExperiment& experiment, const std::vector<BenchCell>& cells, ResultStore& store,
           BenchOutcome& outcome)
      : experiment_(experiment), results_(store), store_(store), outcome_(outcome) {
    plan(cells);
    watch_.keep_on = [&] {
      show();
      return keep_on();
    };
    watch_.begin = [&](const std::string& what) { doing_ = what; };
    watch_.end_run = [&](const BenchResult* result) { end_run(result); };
    watch_.patience = experiment_.patience;
  }

  void run(const BenchCell& cell) {
    cell_ = &cell;
    if (!runs_) runs_.emplace(results_.database(), experiment_.name);
    experiment_.kind == RunKind::bench ? run_point(experiment_.points[cell.item])
                                       : run_search(experiment_.searches[cell.item]);
  }

  void end() {
    if (runs_) runs_->end(!keep_on());
  }

 private:
  int64_t runs_of_a_point() const { return experiment_.n_warmups + experiment_.n_repeats; }

  static PointKey key_of(const BenchPoint& point) { return {point.n_prompt_tokens, point.n_new_tokens, point.batch}; }

  bool is_present(const BenchCell& cell, const BenchPoint& point) {
    return store_.n_repeats(cell.record.key, key_of(point)) >= experiment_.n_repeats;
  }

  bool is_present(const BenchCell& cell, const CapacityRecord& row) {
    return store_.find_capacity(cell.record.key, row).has_value();
  }

  // What is to be done: runs, with the work of each, or searches, whose work nobody knows beforehand.
  void plan(const std::vector<BenchCell>& cells) {
    for (const auto& cell : cells) {
      if (experiment_.kind == RunKind::bench) {
        if (is_present(cell, experiment_.points[cell.item])) continue;
        n_total_ += runs_of_a_point();
        estimate_.plan(work_of(cell), {compressor_of(cell)}, static_cast<double>(runs_of_a_point()));
        continue;
      }
      for (const auto& row : rows_of(experiment_.searches[cell.item])) n_total_ += !is_present(cell, row);
    }
  }

  static int compressor_of(const BenchCell& cell) { return static_cast<int>(cell.compressor); }

  // Of one run.
  WorkEstimate::Prompt work_of(const BenchCell& cell) const {
    const auto& point = experiment_.points[cell.item];
    WorkEstimate::Prompt work;
    work.n_sequences = static_cast<double>(point.batch);
    work.context = static_cast<double>(point.n_prompt_tokens);
    work.computed = work.context * work.n_sequences;
    work.forced = static_cast<double>(point.n_new_tokens * point.batch);
    return work;
  }

  // A run is over. Of warm-ups no times are heard: they count as the first repeat after them.
  void book(const BenchResult& result) {
    const auto work = work_of(*cell_);
    const int compressor = compressor_of(*cell_);
    const auto& seconds = result.seconds;
    const double encoded = seconds.encode * work.context / (work.context + work.forced / work.n_sequences);
    for (; n_unbooked_ > 0; --n_unbooked_) {
      estimate_.plan(work, {compressor}, -1);
      estimate_.measured(work, WorkEstimate::kPrefill, work.computed, work.computed, seconds.prefill);
      estimate_.encoded(work, compressor, encoded);
      estimate_.measured(work, compressor, work.forced, work.forced,
                         seconds.encode - encoded + seconds.attend + seconds.other);
    }
    seconds_booked_ = progress_.seconds_so_far();
  }

  // Those that a failure left out are planned no more.
  void unplan_rest() {
    estimate_.plan(work_of(*cell_), {compressor_of(*cell_)}, -static_cast<double>(n_planned_));
    n_planned_ = 0;
  }

  void show() { show(now_at()); }
  void show(const std::string& doing) {
    ProgressState state;
    state.n_done = n_done_, state.n_total = n_total_, state.doing = doing;
    const double so_far = progress_.seconds_so_far();
    if (experiment_.kind == RunKind::bench) {
      state.unit = "runs";
      const auto left = estimate_.planned();
      const double done = estimate_.tokens_done();
      state.seconds_left = estimate_.seconds_left(left, seconds_booked_);
      if (const auto expected = state.seconds_left) {
        const double left_now = *expected - (so_far - seconds_booked_);
        state.seconds_left = left_of_estimate(left_now, n_done_ == n_total_, state.doing);
      }
      if (seconds_booked_ > 0) state.tokens_per_second = done / seconds_booked_;
      state.share = done > 0 ? done / (done + left.tokens) : 0;
    } else {
      state.unit = "searches";
      state.seconds_left = left_by_count(n_done_, n_total_, so_far);
    }
    progress_.show(state);
    if (!runs_) return;
    RunRow row;
    row.n_done = n_done_, row.n_failed = outcome_.n_failed, row.n_total = n_total_;
    row.seconds_left = state.seconds_left, row.doing = state.doing;
    if (state.tokens_per_second > 0) row.tokens_per_second = state.tokens_per_second;
    runs_->tell(row);
  }

  void run_point(const BenchPoint& point) {
    if (is_present(*cell_, point)) {
      ++outcome_.n_present;
      return;
    }
    const int64_t n_before = n_done_;
    doing_ = "loading";
    auto& ready = child();
    doing_ = name_of_run(0);
    n_ended_ = n_unbooked_ = 0;
    n_planned_ = runs_of_a_point();
    const auto outcome = ready.run({point, experiment_.n_warmups, experiment_.n_repeats, 0});
    if (!keep_on()) return;
    ++outcome_.n_run;
    n_done_ = n_before + runs_of_a_point();  // those that a failure left out, too
    if (!outcome.error.empty()) {
      unplan_rest();
      report("", outcome.error);
      show();
      child_.reset();  // it may have died
      return;
    }
    std::vector<RepeatRecord> records;
    for (const auto& result : outcome.results) records.push_back(record_of(result));
    store_.put_repeats(cell_->record.key, key_of(point), records);
  }

  void end_run(const BenchResult* result) {
    if (experiment_.kind != RunKind::bench) return;  // a search is one step, however many runs it takes
    const auto ended = now_at();
    if (++n_ended_ < runs_of_a_point()) doing_ = name_of_run(n_ended_);
    ++n_unbooked_, ++n_done_;
    if (result) {
      n_planned_ -= n_unbooked_;
      book(*result);
    }
    show(ended);
  }

  // Of the runs of a point, from 0.
  std::string name_of_run(int64_t run) const {
    const int64_t repeat = run - experiment_.n_warmups;
    return repeat < 0 ? "warming up" : concat("repeat ", repeat + 1, " of ", experiment_.n_repeats);
  }

  std::string now_at() const {
    return concat(doing_, ", ", cell_->record.plugin, " (", cell_->record.options_label, "), ", cell_->record.task);
  }

  void run_search(const CapacitySearch& search) {
    for (const auto& wanted : rows_of(search)) {
      if (is_present(*cell_, wanted)) {
        ++outcome_.n_present;
        continue;
      }
      doing_ = "loading";
      const auto found = find_capacity(cell_->set_up, search, wanted.kind == "max_batch", watch_);
      if (!keep_on()) return;
      ++outcome_.n_run, ++n_done_;
      show();
      if (!found.error.empty()) {
        report(", " + wanted.kind, found.error);
        continue;
      }
      auto computed = wanted, tried = wanted;
      computed.how = "computed", computed.value = found.computed;
      tried.value = found.tried;
      store_.put_capacities(cell_->record.key, {computed, tried});
    }
  }

  // One process for all points of a compressor: it loads the model once.
  BenchChild& child() {
    if (!child_ || compressor_ != cell_->compressor) child_.emplace(cell_->set_up, watch_);
    compressor_ = cell_->compressor;
    runs_->begin({cell_->record.key});
    return *child_;
  }

  void report(const std::string& what, const std::string& error) {
    ++outcome_.n_failed;
    progress_.make_room();
    std::fprintf(stderr, "failed: %s, %s (%s)%s: %s\n", cell_->record.task.c_str(), cell_->record.plugin.c_str(),
                 cell_->record.options_label.c_str(), what.c_str(), error.c_str());
  }

  const BenchExperiment& experiment_;
  ResultStore& results_;
  BenchStore store_;
  std::optional<RunStore> runs_;
  BenchOutcome& outcome_;
  Progress progress_;
  WorkEstimate estimate_;
  int64_t n_unbooked_ = 0;     // warm-ups that wait for a repeat
  int64_t n_planned_ = 0;      // runs of this point that are not booked yet
  double seconds_booked_ = 0;  // from the start to the last that was
  BenchWatch watch_;
  const BenchCell* cell_ = nullptr;
  int64_t n_total_ = 0, n_done_ = 0, n_ended_ = 0;  // of all runs or searches; of this point's runs
  std::string doing_;
  std::optional<BenchChild> child_;  // holds on to watch_
  size_t compressor_ = 0;
};

// "model, 256 + 48 tokens, batch 4"
std::string name_of(const BenchPoint& point, const std::string& shape) {
  return concat(shape, ", ", point.n_prompt_tokens, " + ", point.n_new_tokens, " tokens, batch ", point.batch);
}

// "model within 24000000 bytes, 384 + 16 tokens"
std::string name_of(const CapacitySearch& search, const std::string& shape) {
  return concat(shape, " within ", search.limit_bytes, " bytes, ", search.n_prompt_tokens, " + ", search.n_new_tokens,
                " tokens");
}

}  // namespace

std::vector<BenchCell> expand_bench(const BenchExperiment& experiment, const Paths& paths) {
  auto subject = experiment.subject;
  const auto shape = shape_of(experiment, paths, subject);
  auto machine = provenance(experiment.config);
  if (!experiment.model_origin.is_null()) machine["model"] = experiment.model_origin;
  const auto settings = settings_of(experiment, machine);
  const auto compressors = open_compressors(experiment.compressors, {experiment.folder,
                                                                     plugin_folders(experiment.plugin_path, paths),
                                                                     experiment.allow_plugins,
                                                                     shape.shape,
                                                                     shape.identity,
                                                                     {experiment.subject.device},
                                                                     false,
                                                                     experiment.isolation});
  const bool is_bench = experiment.kind == RunKind::bench;
  const size_t n_items = is_bench ? experiment.points.size() : experiment.searches.size();
  std::vector<BenchCell> cells;
  for (size_t c = 0; c < compressors.size(); ++c) {
    const auto& opened = compressors[c];
    for (size_t i = 0; i < n_items; ++i) {
      BenchCell cell{c, i, {subject, opened.choice}, opened.record};
      auto& record = cell.record;
      record.task = is_bench ? name_of(experiment.points[i], shape.name) : name_of(experiment.searches[i], shape.name);
      record.task_json = is_bench ? json(experiment.points[i]).dump() : json(experiment.searches[i]).dump();
      const json key = {{"format", 1},
                        {"model", shape.hashes},
                        {"task", shape.name},
                        {"at", record.task_json},
                        {"compressor", opened.key},
                        {"settings", settings}};
      record.key = sha256_hex(key.dump());
      record.experiment = experiment.name;
      record.position = static_cast<int64_t>(c);
      record.kind = experiment.kind;
      record.model_label = shape.model_label;
      record.model_json = shape.hashes.dump();
      record.generation_json = settings.dump();
      record.provenance_json = machine.dump();
      cells.push_back(std::move(cell));
    }
  }
  return cells;
}

BenchOutcome run_bench(const BenchExperiment& experiment, const std::vector<BenchCell>& cells, ResultStore& store) {
  const Interrupt interrupt;
  BenchOutcome outcome;
  std::vector<const CellRecord*> records;
  for (const auto& cell : cells) records.push_back(&cell.record);
  put_cells(records, experiment.name, experiment.config, store);
  BenchRun run(experiment, cells, store, outcome);
  for (const auto& cell : cells) {
    run.run(cell);
    if (!keep_on()) break;
  }
  run.end();
  outcome.signal = Interrupt::signal();
  return outcome;
}

}  // namespace kvc
