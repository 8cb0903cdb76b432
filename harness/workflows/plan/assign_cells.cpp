#include "plan/assign_cells.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

namespace kvc {
namespace {

constexpr double kTolerance = 1.02;  // of the mean, to which shards are filled rather than to pay for something twice

using Task = std::pair<size_t, std::string>;  // experiment, task

Task task_of(const PlannedCell& cell) { return {cell.experiment, cell.task}; }

bool all_timed(const Plan& plan, const std::vector<size_t>& cells) {
  return std::all_of(cells.begin(), cells.end(), [&](size_t c) { return plan.cells[c].seconds.has_value(); });
}

// A shard that is being filled.
class Filled {
 public:
  Filled(const Plan& plan, bool is_timed) : plan_(plan), is_timed_(is_timed) {}

  double with(size_t c) const {
    const auto& cell = plan_.cells[c];
    if (!is_timed_) return cost_ + static_cast<double>(cell.n_samples) * (tasks_.contains(task_of(cell)) ? 1 : 1.5);
    double cost = cost_ + *cell.seconds;
    if (!tasks_.contains(task_of(cell))) cost += cell.prefill_seconds;
    if (!experiments_.contains(cell.experiment)) cost += plan_.experiments[cell.experiment].load_seconds;
    return cost;
  }

  void add(size_t c) {
    cost_ = with(c);
    tasks_.insert(task_of(plan_.cells[c]));
    experiments_.insert(plan_.cells[c].experiment);
    cells_.push_back(c);
  }

  double cost() const { return cost_; }
  // What it need not pay for again: 2 a task's prompts, 1 a model's loading.
  int shares(size_t c) const {
    const auto& cell = plan_.cells[c];
    return tasks_.contains(task_of(cell)) ? 2 : experiments_.contains(cell.experiment) ? 1 : 0;
  }
  const std::vector<size_t>& cells() const { return cells_; }

 private:
  const Plan& plan_;
  bool is_timed_;
  double cost_ = 0;
  std::set<Task> tasks_;
  std::set<size_t> experiments_;
  std::vector<size_t> cells_;
};

std::vector<size_t> in_order_of_running(const Plan& plan, std::vector<size_t> cells) {
  std::map<Task, std::pair<int, double>> rank;  // without a baseline; seconds, negative
  for (const size_t c : cells) {
    const auto& cell = plan.cells[c];
    const auto [at, is_new] = rank.try_emplace(task_of(cell), 1, -cell.prefill_seconds);
    if (cell.is_baseline) at->second.first = 0;
    at->second.second -= cell.seconds.value_or(static_cast<double>(cell.n_samples));
  }
  std::sort(cells.begin(), cells.end(), [&](size_t a, size_t b) {
    const auto place = [&](size_t c) {
      const auto& cell = plan.cells[c];
      return std::tuple(cell.experiment, rank.at(task_of(cell)), cell.task, !cell.is_baseline,
                        -cell.seconds.value_or(0), c);
    };
    return place(a) < place(b);
  });
  return cells;
}

}  // namespace

std::vector<std::vector<size_t>> assign_cells(const Plan& plan, const std::vector<size_t>& cells, size_t n_shards) {
  const bool is_timed = all_timed(plan, cells);
  auto order = cells;
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const auto place = [&](size_t c) {
      const auto& cell = plan.cells[c];
      const double length = is_timed ? *cell.seconds + cell.prefill_seconds : static_cast<double>(cell.n_samples);
      return std::tuple(!cell.is_baseline, -length, c);
    };
    return place(a) < place(b);
  });
  Filled one(plan, is_timed);
  for (const size_t c : cells) one.add(c);
  const double mean = one.cost() / static_cast<double>(n_shards) * kTolerance;
  std::vector<Filled> filled(std::min(n_shards, cells.size()), Filled(plan, is_timed));
  for (const size_t c : order) {
    const auto badness = [&](const Filled& shard) {
      const double cost = shard.with(c);
      return std::pair(cost <= mean ? -shard.shares(c) : 0, cost);
    };
    const auto best = std::min_element(filled.begin(), filled.end(),
                                       [&](const auto& a, const auto& b) { return badness(a) < badness(b); });
    best->add(c);
  }
  std::vector<std::vector<size_t>> shards;
  for (const auto& shard : filled) {
    if (!shard.cells().empty()) shards.push_back(in_order_of_running(plan, shard.cells()));
  }
  return shards;
}

std::optional<double> shard_seconds(const Plan& plan, const std::vector<size_t>& cells) {
  if (!all_timed(plan, cells)) return std::nullopt;
  Filled shard(plan, true);
  for (const size_t c : cells) shard.add(c);
  return shard.cost();
}

}  // namespace kvc
