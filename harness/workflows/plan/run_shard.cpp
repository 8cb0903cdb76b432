#include "plan/run_shard.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>

#include "contract/stopwatch.h"
#include "experiment/grid.h"
#include "kvc/check.h"
#include "model_lookup/model_path.h"
#include "plan/shard_file.h"
#include "run/run_experiment.h"
#include "store/run_store.h"
#include "text/files.h"
#include "text/message.h"
#include "wire/interrupt.h"

namespace kvc {

namespace fs = std::filesystem;

KVC_DEFINE_JSON(ShardState, state, host, pid, started_at, seen_at, n_done, n_failed, n_left, message)

namespace {

constexpr double kTellSeconds = 10;   // between two writings of the state
constexpr double kBringSeconds = 60;  // between two bringings, and
constexpr double kBringShare = 0.02;  // of the time, at most

std::optional<int64_t> whole_number(const std::string& text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

struct IndexVariable {
  const char* name;
  int64_t first;
};
constexpr IndexVariable kIndexes[] = {{"SLURM_ARRAY_TASK_ID", 0}, {"JOB_COMPLETION_INDEX", 0}, {"PBS_ARRAY_INDEX", 0},
                                      {"HQ_TASK_ID", 0},          {"SGE_TASK_ID", 1},          {"LSB_JOBINDEX", 1}};

int64_t number_of_variable(const char* name, const std::string& text) {
  const auto number = whole_number(text);
  KVC_CHECK(number, name, " is '", text, "', expected a whole number");
  return *number;
}

// The batch systems set it to 0 or "undefined" for jobs that are none of an array.
bool is_set(const IndexVariable& index) {
  const char* text = std::getenv(index.name);
  if (!text || !*text || std::string(text) == "undefined") return false;
  return index.first == 0 || std::string(text) != "0";
}

size_t shard_by_environment(size_t n) {
  for (const auto& index : kIndexes) {
    if (!is_set(index)) continue;
    const char* offset = std::getenv("KVC_SHARD_OFFSET");
    auto shard = number_of_variable(index.name, std::getenv(index.name)) - index.first;
    if (offset && *offset) shard += number_of_variable("KVC_SHARD_OFFSET", offset);
    KVC_CHECK(static_cast<size_t>(shard) < n, index.name, " is ", std::getenv(index.name), ", which is shard ", shard,
              ", expected below ", n, ", as many as the plan has");
    return static_cast<size_t>(shard);
  }
  std::string names;
  for (const auto& index : kIndexes) names += concat(names.empty() ? "" : ", ", index.name);
  throw Error(concat("--shard is not given, nor is any of ", names, " set; expected --shard I/", n));
}

// The shard's part of one experiment of the plan.
struct Part {
  size_t experiment;
  std::vector<KeptCell> cells;  // in their order
};

std::vector<Part> parts_of(const Plan& plan, size_t shard) {
  std::vector<Part> parts;
  for (const size_t c : plan.shards[shard]) {
    const auto& cell = plan.cells[c];
    if (parts.empty() || parts.back().experiment != cell.experiment) parts.push_back({cell.experiment, {}});
    parts.back().cells.push_back({cell.key, cell.elsewhere});
  }
  return parts;
}

class ShardRun {
 public:
  ShardRun(const Plan& plan, const ShardRequest& request)
      : plan_(plan),
        request_(request),
        database_(request.database.empty() ? plan.database_of(request.shard) : request.database),
        state_path_(fs::path(database_).replace_extension(".json")),
        paths_(find_paths()),
        file_(database_) {
    std::array<char, 256> host{};
    ::gethostname(host.data(), host.size() - 1);
    state_.host = host.data();
    state_.pid = ::getpid();
    state_.started_at = seconds_since_1970();
    for (const size_t c : plan.shards[request.shard]) state_.n_left += plan.cells[c].n_samples;
  }

  ShardOutcome run() {
    tell("running", "beginning");
    try {
      for (const auto& part : parts_of(plan_, request_.shard)) {
        if (Interrupt::signal() != 0) break;
        run_part(part);
      }
    } catch (const std::exception& e) {
      file_.bring();
      tell("failed", one_line(said_by(e)));
      throw;
    }
    outcome_.signal = Interrupt::signal();
    file_.bring();
    state_.n_done = outcome_.n_run, state_.n_failed = outcome_.n_failed;
    if (outcome_.signal == 0) state_.n_left = 0;
    if (outcome_.signal != 0) {
      tell("stopped", concat("by signal ", outcome_.signal));
    } else {
      tell(outcome_.n_failed > 0 ? "failed" : "done",
           outcome_.n_failed > 0 ? concat(outcome_.n_failed, " samples failed") : "");
    }
    return outcome_;
  }

 private:
  void run_part(const Part& part) {
    const auto& planned = plan_.experiments[part.experiment];
    auto experiment = load_experiment(planned.file, planned.settings);
    place_model(experiment);
    experiment.allow_plugins = request_.allow_plugins;
    auto grid = expand_grid(experiment, paths_, request_.verify);
    try {
      keep_cells(part.cells, grid);
    } catch (const Error& e) {
      throw Error(concat(planned.file, ": ", e.what(),
                         " that was planned: the file, its model, data or a plugin has "
                         "changed; plan again, with --missing for finished work"));
    }
    const auto before = outcome_;
    told_ = {};  // at once
    const auto outcome = run_grid(grid, experiment, file_.store(), [&](const RunRow& row) { watch(row, before); });
    outcome_.n_run += outcome.n_run, outcome_.n_failed += outcome.n_failed, outcome_.n_present += outcome.n_present;
  }

  void watch(const RunRow& row, const ShardOutcome& before) {
    if (seconds_since(told_) > kTellSeconds) {
      state_.n_done = before.n_run + row.n_done, state_.n_failed = before.n_failed + row.n_failed;
      tell("running", row.doing);
    }
    if (seconds_since(brought_) < std::max(kBringSeconds, bring_seconds_ / kBringShare)) return;
    const auto start = Clock::now();
    file_.bring();
    bring_seconds_ = seconds_since(start);
    brought_ = Clock::now();
  }

  // What cannot be told is no reason to end: the database says what was done.
  void tell(const std::string& state, const std::string& message) {
    state_.state = state, state_.message = message, state_.seen_at = seconds_since_1970();
    told_ = Clock::now();
    try {
      const auto part = concat(state_path_.string(), ".part-", state_.host, "-", state_.pid);
      write_file(part, nlohmann::json(state_).dump() + "\n");
      fs::rename(part, state_path_);
    } catch (const std::exception& e) {
      std::fprintf(stderr, "cannot report the shard's state: %s\n", one_line(e.what()).c_str());
    }
  }

  const Plan& plan_;
  const ShardRequest& request_;
  fs::path database_, state_path_;
  Paths paths_;
  ShardFile file_;
  ShardState state_;
  ShardOutcome outcome_;
  Clock::time_point told_{}, brought_ = Clock::now();
  double bring_seconds_ = 0;
};

}  // namespace

size_t shard_of(const std::string& given, size_t n) {
  if (given.empty()) return shard_by_environment(n);
  const auto slash = given.find('/');
  const auto shard = whole_number(given.substr(0, slash));
  const auto all = slash == std::string::npos ? std::nullopt : whole_number(given.substr(slash + 1));
  KVC_CHECK(shard && all, "--shard '", given, "', expected I/N with I from 0");
  KVC_CHECK(static_cast<size_t>(*all) == n, "--shard ", given, ": the plan has ", n, " shards, expected I/", n);
  KVC_CHECK(*shard < *all, "--shard ", given, ": shards count from 0, expected 0/", n, " to ", n - 1, "/", n);
  return static_cast<size_t>(*shard);
}

ShardOutcome run_shard(const Plan& plan, const ShardRequest& request) {
  const Interrupt interrupt;  // from the beginning: what comes before the first sample is minutes for a large model
  return ShardRun(plan, request).run();
}

}  // namespace kvc
