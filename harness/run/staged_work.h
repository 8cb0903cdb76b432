// The time left of work in stages, each of steps that take alike.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kvc {

class StagedWork {
 public:
  explicit StagedWork(std::vector<std::string> names) {
    for (auto& name : names) stages_.push_back({std::move(name)});
  }

  // A stage that begins counts nothing as its own until its first step is done. n_skipped: of n_done, steps that were
  // there already.
  void plan(size_t stage, int64_t n_total) { stages_.at(stage).n_total = n_total; }
  void reach(size_t stage, int64_t n_done, int64_t n_skipped, double seconds_so_far) {
    auto& at = stages_.at(stage);
    at.seconds += seconds_so_far - seconds_;
    seconds_ = seconds_so_far;
    at.n_done = n_done, at.n_skipped = n_skipped;
    now_ = stage;
  }

  // Of a stage that has not begun, steps as long as those of the last that has; nothing before the first step.
  std::optional<double> seconds_left() const {
    std::optional<double> left, step;
    for (const auto& stage : stages_) {
      const auto n_own = stage.n_done - stage.n_skipped;
      if (n_own > 0) step = stage.seconds / static_cast<double>(n_own);
      if (step) left = left.value_or(0) + *step * static_cast<double>(stage.n_total - stage.n_done);
    }
    return left;
  }
  int64_t n_done() const { return stages_[now_].n_done; }
  int64_t n_total() const { return stages_[now_].n_total; }
  const std::string& name() const { return stages_[now_].name; }

 private:
  struct Stage {
    std::string name;
    int64_t n_total = 0, n_done = 0, n_skipped = 0;
    double seconds = 0;
  };
  std::vector<Stage> stages_;
  size_t now_ = 0;
  double seconds_ = 0;
};

}  // namespace kvc
