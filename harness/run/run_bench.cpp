#include "run/run_bench.h"

#include <cstdio>
#include <optional>

#include "model/model_config.h"
#include "run/calibration.h"
#include "run/find_capacity.h"
#include "run/grid.h"
#include "run/interrupt.h"
#include "run/model_hashes.h"
#include "run/open_compressor.h"
#include "run/provenance.h"
#include "text/files.h"

namespace kvc {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// The model, as far as a cell needs it.
struct Shape {
  ModelShape shape;
  std::string name, model;  // of the task and of the model, for tables
  json hashes;
  std::string identity;
};

Shape shape_of(BenchSubject& subject, const Paths& paths) {
  Shape found;
  if (subject.is_layer()) {
    found.shape = {.n_heads = subject.n_heads, .n_kv_heads = subject.n_kv_heads, .head_dim = subject.head_dim};
    found.name = concat("layer ", subject.n_heads, "/", subject.n_kv_heads, "/", subject.head_dim);
    found.model = "single layer";
    found.hashes = json::object();
    return found;
  }
  const bool is_drawn = subject.model.empty();
  found.model = is_drawn ? subject.config : subject.model;
  auto& file = is_drawn ? subject.config : subject.model;
  file = below_root(paths, file).string();
  KVC_CHECK(is_drawn ? fs::is_regular_file(file) : fs::is_directory(file), "bench: ", is_drawn ? "config" : "model",
            " '", found.model, "': no such ", is_drawn ? "file" : "folder");
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
  settings["kind"] = experiment.kind;
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
  return record;
}

bool keep_on() { return Interrupt::signal() == 0; }

class BenchRun {
 public:
  BenchRun(const BenchExperiment& experiment, const BenchCell& cell, ResultStore& store, BenchOutcome& outcome)
      : experiment_(experiment), cell_(cell), store_(store), outcome_(outcome) {}

  void run_points() {
    std::optional<BenchChild> child;
    for (const auto& point : experiment_.points) {
      const PointKey key{point.n_prompt_tokens, point.n_new_tokens, point.batch};
      if (store_.n_repeats(cell_.record.key, key) >= experiment_.n_repeats) {
        ++outcome_.n_present;
        continue;
      }
      if (!child) child.emplace(cell_.set_up);
      const auto outcome = child->run({point, experiment_.n_warmups, experiment_.n_repeats, 0}, keep_on);
      if (!keep_on()) return;
      ++outcome_.n_run;
      if (!outcome.error.empty()) {
        report(concat(point.n_prompt_tokens, " + ", point.n_new_tokens, " tokens, batch ", point.batch), outcome.error);
        child.reset();  // it may have died
        continue;
      }
      std::vector<RepeatRecord> records;
      for (const auto& result : outcome.results) records.push_back(record_of(result));
      store_.put_repeats(cell_.record.key, key, records);
    }
  }

  void run_searches() {
    for (const auto& search : experiment_.searches) {
      for (const auto& wanted : rows_of(search)) {
        if (store_.find_capacity(cell_.record.key, wanted)) {
          ++outcome_.n_present;
          continue;
        }
        const auto found = find_capacity(cell_.set_up, search, wanted.kind == "max_batch", keep_on);
        if (!keep_on()) return;
        ++outcome_.n_run;
        if (!found.error.empty()) {
          report(concat(wanted.kind, " within ", search.limit_bytes, " bytes"), found.error);
          continue;
        }
        auto computed = wanted, tried = wanted;
        computed.how = "computed", computed.value = found.computed;
        tried.value = found.tried;
        store_.put_capacities(cell_.record.key, {computed, tried});
      }
    }
  }

 private:
  static std::vector<CapacityRecord> rows_of(const CapacitySearch& search) {
    std::vector<CapacityRecord> rows;
    const int64_t n_tokens = search.n_prompt_tokens + search.n_new_tokens;
    if (search.max_batch > 0) rows.push_back({"max_batch", "tried", search.limit_bytes, n_tokens, 0});
    if (search.max_context > 0) rows.push_back({"max_context", "tried", search.limit_bytes, 0, 0});
    return rows;
  }

  void report(const std::string& what, const std::string& error) {
    ++outcome_.n_failed;
    std::fprintf(stderr, "failed: %s, %s (%s), %s: %s\n", cell_.record.task.c_str(), cell_.record.plugin.c_str(),
                 cell_.record.options_label.c_str(), what.c_str(), error.c_str());
  }

  const BenchExperiment& experiment_;
  const BenchCell& cell_;
  BenchStore store_;
  BenchOutcome& outcome_;
};

}  // namespace

std::vector<BenchCell> expand_bench(const BenchExperiment& experiment, const Paths& paths) {
  auto subject = experiment.subject;
  const auto shape = shape_of(subject, paths);
  const auto machine = provenance(experiment.config);
  const auto settings = settings_of(experiment, machine);
  const auto folders = plugin_folders(experiment.plugin_path, paths);
  std::vector<BenchCell> cells;
  for (const auto& choice : experiment.compressors) {
    std::vector<WorkerCompressor> written;
    auto opened = open_compressor(choice, experiment.folder, folders, shape.shape, shape.identity, written);
    BenchCell cell{{subject, written.front()}, std::move(opened.record)};
    const json key = {{"format", 1},
                      {"model", shape.hashes},
                      {"task", shape.name},
                      {"compressor", opened.key},
                      {"settings", settings}};
    cell.record.key = sha256_hex(key.dump());
    cell.record.experiment = experiment.name;
    cell.record.kind = experiment.kind;
    cell.record.model = shape.model;
    cell.record.model_json = shape.hashes.dump();
    cell.record.task = shape.name;
    cell.record.task_json = json{{"shape", shape.name}}.dump();
    cell.record.generation_json = settings.dump();
    cell.record.provenance_json = machine.dump();
    cell.record.position = static_cast<int64_t>(cells.size());
    cells.push_back(std::move(cell));
  }
  return cells;
}

BenchOutcome run_bench(const BenchExperiment& experiment, const std::vector<BenchCell>& cells, ResultStore& store) {
  const Interrupt interrupt;
  BenchOutcome outcome;
  for (const auto& cell : cells) {
    store.put_cell(cell.record);
    BenchRun run(experiment, cell, store, outcome);
    experiment.kind == "bench" ? run.run_points() : run.run_searches();
    if (!keep_on()) break;
  }
  outcome.signal = Interrupt::signal();
  return outcome;
}

}  // namespace kvc
