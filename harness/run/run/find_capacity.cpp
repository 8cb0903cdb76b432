#include "run/find_capacity.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace kvc {
namespace {

// n is sequences of a length, or the steps of one sequence's context.
class Search {
 public:
  Search(const BenchSetUp& set_up, const CapacitySearch& search, bool of_batch, const BenchWatch& watch)
      : set_up_(set_up), search_(search), of_batch_(of_batch), watch_(watch) {}

  FoundCapacity run() {
    child_.emplace(set_up_, watch_);
    const int64_t most = largest_asked();
    found_.computed = std::clamp<int64_t>(computed(), 0, most);
    if (!found_.error.empty()) return found_;
    found_.tried = largest_that(found_.computed, most, [&](int64_t n) { return fits(n); });
    if (!of_batch_) found_.computed *= kContextStep, found_.tried *= kContextStep;
    return found_;
  }

 private:
  int64_t largest_asked() const {
    if (of_batch_) return search_.max_batch;
    return std::min(search_.max_context, child_->max_tokens()) / kContextStep;
  }

  BenchPoint point(int64_t n) const {
    if (of_batch_) return {search_.n_prompt_tokens, search_.n_new_tokens, n};
    return {n * kContextStep - search_.n_new_tokens, search_.n_new_tokens, 1};
  }

  int64_t n_tokens(int64_t n) const { return point(n).n_prompt_tokens + point(n).n_new_tokens; }

  BenchJob job(int64_t n, int64_t limit_bytes) const {
    const auto at = point(n);
    watch_.begin(of_batch_ ? concat("batch ", n) : concat(at.n_prompt_tokens + at.n_new_tokens, " tokens"));
    return {at, 0, 1, limit_bytes};
  }

  // Workspace of a run without a limit.
  double workspace(int64_t n, double& weights) {
    const auto outcome = child_->run(job(n, 0));
    if (found_.error.empty()) found_.error = outcome.error;
    if (outcome.results.empty()) return 0;
    weights = static_cast<double>(outcome.results[0].memory.weights);
    return static_cast<double>(outcome.results[0].memory.workspace);
  }

  // Where weights + KV(n) + workspace(n) reach the limit, workspace being a line through two small runs.
  int64_t computed() {
    const int64_t few = of_batch_ ? 1 : std::max<int64_t>(2, search_.n_new_tokens / kContextStep + 1), more = 2 * few;
    double weights = 0;
    const double first = workspace(few, weights), second = workspace(more, weights);
    if (!found_.error.empty() || !watch_.keep_on()) return 0;
    const auto line = child_->measure();
    const double slope = std::max(0.0, (second - first) / static_cast<double>(more - few));
    const auto needed = [&](int64_t n) {
      const double kv = line.bytes(n_tokens(n)) * static_cast<double>(of_batch_ ? n : 1);
      return weights + kv + first + slope * static_cast<double>(n - few);
    };
    int64_t low = 0, high = largest_asked() + 1;
    while (high - low > 1) {
      const int64_t middle = low + (high - low) / 2;
      (needed(middle) <= static_cast<double>(search_.limit_bytes) ? low : high) = middle;
    }
    return low;
  }

  bool fits(int64_t n) {
    if (!watch_.keep_on() || !found_.error.empty() || point(n).n_prompt_tokens < 1) return false;
    if (!child_) child_.emplace(set_up_, watch_);
    const auto outcome = child_->run(job(n, search_.limit_bytes));
    if (outcome.error.empty()) return true;
    child_.reset();  // what it could not allocate is lost to it
    if (!outcome.hit_limit) found_.error = outcome.error;
    return false;
  }

  const BenchSetUp& set_up_;
  const CapacitySearch& search_;
  bool of_batch_;
  const BenchWatch& watch_;
  std::optional<BenchChild> child_;
  FoundCapacity found_;
};

}  // namespace

int64_t largest_that(int64_t guess, int64_t most, const std::function<bool(int64_t n)>& fits) {
  int64_t low = 0, high = most + 1, step = std::max<int64_t>(1, guess / 16);
  if (high == 1) return 0;
  for (int64_t n = std::clamp<int64_t>(guess, 1, most); low < n && n < high; step *= 2) {
    if (fits(n)) {
      low = n, n = std::min(n + step, most);
      if (high <= most) break;
    } else {
      high = n, n = std::max<int64_t>(n - step, 1);
      if (low > 0) break;
    }
  }
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    (fits(middle) ? low : high) = middle;
  }
  return low;
}

FoundCapacity find_capacity(const BenchSetUp& set_up, const CapacitySearch& search, bool of_batch,
                            const BenchWatch& watch) {
  try {
    return Search(set_up, search, of_batch, watch).run();
  } catch (const Error& e) {
    FoundCapacity failed;
    failed.error = e.what();
    return failed;
  }
}

}  // namespace kvc
