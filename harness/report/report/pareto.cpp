#include "report/pareto.h"

#include <algorithm>
#include <cmath>

namespace kvc {

void mark_dominated(std::vector<ParetoPoint>& points) {
  for (auto& point : points) {
    point.is_dominated = std::any_of(points.begin(), points.end(), [&](const ParetoPoint& other) {
      return other.kv_percent <= point.kv_percent && other.score >= point.score &&
             (other.kv_percent < point.kv_percent || other.score > point.score);
    });
  }
}

std::vector<std::pair<double, double>> front_of(const std::vector<ParetoPoint>& points) {
  std::vector<std::pair<double, double>> front;
  for (const auto& point : points) {
    if (!point.is_dominated) front.emplace_back(point.kv_percent, point.score);
  }
  std::sort(front.begin(), front.end());
  return front;
}

double hypervolume(const std::vector<ParetoPoint>& points) {
  const auto front = front_of(points);
  double area = 0;
  for (size_t i = 0; i < front.size(); ++i) {
    const double end = i + 1 < front.size() ? std::min(100.0, front[i + 1].first) : 100.0;
    area += std::max(0.0, end - front[i].first) * front[i].second;
  }
  return area / 1e4;
}

Mean mean_of(const std::vector<Mean>& means) {
  const auto n = static_cast<double>(means.size());
  Mean mean;
  for (const auto& one : means) mean.score += one.score / n;
  if (!std::ranges::all_of(means, [](const auto& one) { return one.interval.has_value(); })) return mean;
  double below = 0, above = 0;
  for (const auto& one : means) {
    below += std::pow(one.score - one.interval->low, 2);
    above += std::pow(one.interval->high - one.score, 2);
  }
  mean.interval = {mean.score - std::sqrt(below) / n, mean.score + std::sqrt(above) / n};
  return mean;
}

}  // namespace kvc
