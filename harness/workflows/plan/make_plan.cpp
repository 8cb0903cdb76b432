#include "plan/make_plan.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

#include "checkpoint/model_config.h"
#include "experiment/grid.h"
#include "kvc/check.h"
#include "model/model_size.h"
#include "model_lookup/model_path.h"
#include "plan/assign_cells.h"
#include "run/estimate_run.h"

namespace kvc {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kWorkspaceBytes = 2'000'000'000;  // as `kvc doctor` reserves
constexpr double kLoadBytesPerSecond = 5e8;         // assumed, of a shared file system
constexpr double kStartSeconds = 2;                 // assumed, of a process with LibTorch
constexpr double kSecondsPerHour = 3600;

class PlanMaker {
 public:
  explicit PlanMaker(const PlanRequest& request) : request_(request), paths_(find_paths()) {
    const auto file = fs::absolute(request.plan);
    plan_.name = file.stem().string();
    plan_.folder = (file.parent_path() / plan_.name).string();
    if (request.cluster) plan_.cluster = request.cluster->name;
    if (!request.missing.empty()) done_.emplace(ResultStore::open_readonly(request.missing));
    if (!request.pilot.empty()) pilot_.emplace(ResultStore::open_readonly(request.pilot));
  }

  Plan make() {
    for (const auto& file : request_.files) add_experiment(file);
    KVC_CHECK(!plan_.cells.empty(), "nothing is missing in ", request_.files.size(),
              " experiments: no plan is written");
    if (request_.hours) check_hours();
    deal();
    return std::move(plan_);
  }

 private:
  void add_experiment(const std::string& as_given) {
    const auto file = experiment_file(paths_, as_given);
    const auto kind = experiment_kind(file, request_.settings);
    KVC_CHECK(kind == RunKind::eval, file.string(), ": kind is ", to_string(kind), ", a plan takes eval");
    auto experiment = load_experiment(file, request_.settings);
    place_model(experiment);
    const auto grid = expand_grid(experiment, paths_);
    for (const auto& task : grid.left_out) std::fprintf(stderr, "left out: %s\n", task.c_str());
    auto* done = done_ ? &*done_ : nullptr;
    const auto estimates = estimate_cells(grid, experiment, done, pilot_ ? &*pilot_ : done);
    const auto weights = bytes_of_weights(experiment, grid);
    const size_t number = plan_.experiments.size();
    plan_.experiments.push_back({fs::absolute(file).string(), request_.settings, experiment.name, experiment.model_name,
                                 kStartSeconds + static_cast<double>(weights) / kLoadBytesPerSecond});
    plan_.predicted_by.push_back(estimates.by);
    const auto kv = static_cast<double>(kv_bytes_per_token_16bit(load_model_config(grid.worker.model_path))) *
                    (experiment.dtype == "fp32" ? 2 : 1);
    for (size_t c = 0; c < grid.cells.size(); ++c) {
      const auto& [n_missing, n_tokens, prefill, seconds] = estimates.cells[c];
      if (n_missing == 0) continue;
      const auto& record = grid.cells[c].record;
      std::set<int64_t> elsewhere;
      if (done) elsewhere = done->generated_samples(record.key);
      plan_.cells.push_back({record.key,
                             number,
                             record.task,
                             name_of(record),
                             n_missing,
                             {elsewhere.begin(), elsewhere.end()},
                             !record.lossy,
                             seconds,
                             prefill.value_or(0),
                             predicted_bytes(weights, kv, n_tokens, std::max<int64_t>(1, experiment.batch_size))});
    }
  }

  static std::string name_of(const CellRecord& record) {
    if (!record.label.empty()) return record.label;
    return record.options_label.empty() ? record.plugin : concat(record.plugin, " ", record.options_label);
  }

  static int64_t bytes_of_weights(const Experiment& experiment, const Grid& grid) {
    const auto size = model_size(load_model_config(grid.worker.model_path));
    const auto type = experiment.weights == "int8" ? WeightType::int8
                      : experiment.dtype == "fp32" ? WeightType::fp32
                                                   : WeightType::bits16;
    return weights_bytes(size, type) * experiment.workers;
  }

  void check_hours() const {
    for (const auto& cell : plan_.cells) {
      KVC_CHECK(cell.seconds, "--hours ", *request_.hours, ": no time estimate for experiment '",
                plan_.experiments[cell.experiment].name, "': ", plan_.predicted_by[cell.experiment],
                "; expected --pilot with a database of its samples, or --shards");
    }
    const auto limit = request_.cluster ? request_.cluster->seconds : 0;
    KVC_CHECK(limit == 0 || *request_.hours * kSecondsPerHour <= static_cast<double>(limit), "--hours ",
              *request_.hours, ": cluster '", request_.cluster ? request_.cluster->name : "", "' allows ",
              request_.cluster ? request_.cluster->time : "");
  }

  // Cells by the class of machines that they go to.
  std::map<size_t, std::vector<size_t>> classes() const {
    std::map<size_t, std::vector<size_t>> by_class;
    for (size_t c = 0; c < plan_.cells.size(); ++c) by_class[class_of(plan_.cells[c])].push_back(c);
    return by_class;
  }

  size_t class_of(const PlannedCell& cell) const {
    if (!request_.cluster || request_.cluster->classes.empty()) return 0;
    const auto& all = request_.cluster->classes;
    for (size_t i = 0; i < all.size(); ++i) {
      if (cell.bytes <= all[i].bytes) return i;
    }
    throw Error(concat("task ", cell.task, ", ", cell.compressor, " of experiment '",
                       plan_.experiments[cell.experiment].name, "' needs ", cell.bytes, " bytes (predicted); cluster '",
                       request_.cluster->name, "' has at most ", all.back().bytes, " (class ", all.back().name, ")"));
  }

  double work_of(const std::vector<size_t>& cells) const {
    if (const auto seconds = shard_seconds(plan_, cells)) return *seconds;
    double n = 0;
    for (const size_t c : cells) n += static_cast<double>(plan_.cells[c].n_samples);
    return n;
  }

  void deal() {
    const auto by_class = classes();
    double all = 0;
    for (const auto& [number, cells] : by_class) all += work_of(cells);
    for (const auto& [number, cells] : by_class) {
      std::vector<std::vector<size_t>> shards;
      if (request_.hours) {
        shards = within(cells, *request_.hours * kSecondsPerHour * kFilled);
      } else {
        const double share = static_cast<double>(*request_.n_shards) * (all > 0 ? work_of(cells) / all : 1);
        shards = assign_cells(plan_, cells, static_cast<size_t>(std::max<int64_t>(1, std::llround(share))));
      }
      const bool has_classes = request_.cluster && !request_.cluster->classes.empty();
      plan_.arrays.push_back(
          {has_classes ? request_.cluster->classes[number].name : "", plan_.shards.size(), shards.size()});
      for (auto& shard : shards) plan_.shards.push_back(std::move(shard));
    }
  }

  // As few shards as end within so many seconds, or one a cell.
  std::vector<std::vector<size_t>> within(const std::vector<size_t>& cells, double seconds) const {
    auto n = static_cast<size_t>(std::max(1.0, std::floor(work_of(cells) / seconds)));
    while (true) {
      auto shards = assign_cells(plan_, cells, n);
      const bool is_short = std::all_of(shards.begin(), shards.end(),
                                        [&](const auto& shard) { return *shard_seconds(plan_, shard) <= seconds; });
      if (is_short || n >= cells.size()) return shards;
      n = std::max(n + 1, n + n / 16);
    }
  }

  const PlanRequest& request_;
  Paths paths_;
  Plan plan_;
  std::optional<ResultStore> done_, pilot_;
};

}  // namespace

int64_t predicted_bytes(int64_t weights, double kv_per_token, double n_tokens, int64_t batch_size) {
  return weights + std::llround(kv_per_token * n_tokens * static_cast<double>(batch_size)) + kWorkspaceBytes;
}

Plan make_plan(const PlanRequest& request) { return PlanMaker(request).make(); }

}  // namespace kvc
