#include "stats/remembered.h"

#include <map>
#include <mutex>

#include "stats/clustered.h"

namespace kvc {
namespace {

constexpr size_t kMost = 2'000;

template <class Result>
class Remembered {
 public:
  template <class Compute>
  Result of(std::vector<double> key, Compute compute) {
    const std::lock_guard lock(mutex_);
    if (const auto found = results_.find(key); found != results_.end()) return found->second;
    if (results_.size() >= kMost) results_.clear();
    return results_.emplace(std::move(key), compute()).first->second;
  }

 private:
  std::mutex mutex_;
  std::map<std::vector<double>, Result> results_;
};

std::vector<Cluster> clusters_of(const std::vector<double>& values, const std::vector<double>& weights,
                                 const std::vector<double>& windows) {
  std::map<double, Cluster> by_window;
  for (size_t i = 0; i < values.size(); ++i) {
    auto& cluster = by_window[windows[i]];
    cluster.values.push_back(values[i]);
    cluster.weights.push_back(weights[i]);
  }
  std::vector<Cluster> clusters;
  for (auto& [window, cluster] : by_window) clusters.push_back(std::move(cluster));
  return clusters;
}

}  // namespace

Interval remembered_score_interval(const std::vector<double>& values) {
  if (is_binary(values)) return score_interval(values);  // sooner computed than found
  static Remembered<Interval> remembered;
  return remembered.of(values, [&] { return score_interval(values); });
}

std::optional<Interval> remembered_text_interval(const std::vector<double>& values, const std::vector<double>& weights,
                                                 const std::vector<double>& windows) {
  static Remembered<std::optional<Interval>> remembered;
  auto key = values;
  key.insert(key.end(), weights.begin(), weights.end());
  key.insert(key.end(), windows.begin(), windows.end());
  return remembered.of(std::move(key), [&] { return interval_of_texts(clusters_of(values, weights, windows)); });
}

}  // namespace kvc
