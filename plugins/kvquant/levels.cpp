#include "levels.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace kvquant {
namespace {

constexpr int kMaxIterations = 50;

// Values ascending, and the sums of weights and weighted values before each.
struct Sorted {
  std::vector<double> x, weight, moment;  // n, n + 1, n + 1

  Sorted(const at::Tensor& z, const at::Tensor& weights) {
    const auto values = z.to(at::kDouble).flatten().contiguous();
    const auto given = weights.defined() ? weights.to(at::kDouble).flatten().contiguous() : at::Tensor();
    const int64_t n = values.numel();
    std::vector<std::pair<double, int64_t>> order;  // equal values as they come
    order.reserve(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) order.emplace_back(values.const_data_ptr<double>()[i], i);
    std::sort(order.begin(), order.end());
    weight.push_back(0), moment.push_back(0);
    for (const auto& [v, i] : order) {
      const double w = given.defined() ? given.const_data_ptr<double>()[i] : 1;
      if (w <= 0) continue;  // it pulls at nothing
      x.push_back(v);
      weight.push_back(weight.back() + w), moment.push_back(moment.back() + w * v);
    }
  }

  // The value at which a share p of the weight is reached.
  double quantile(double p) const {
    const auto found = std::upper_bound(weight.begin() + 1, weight.end(), p * weight.back());
    return x[std::min<size_t>(static_cast<size_t>(found - weight.begin()) - 1, x.size() - 1)];
  }
};

std::vector<double> evenly_spaced(int64_t n) {
  std::vector<double> levels;
  for (int64_t i = 0; i < n; ++i) levels.push_back((2.0 * static_cast<double>(i) + 1) / static_cast<double>(n) - 1);
  return levels;
}

// One step of Lloyd: each level becomes the mean of its cell, which ends half way to the next. False: none moved.
bool improve(const Sorted& z, std::vector<double>& levels) {
  bool moved = false;
  size_t first = 0;
  for (size_t i = 0; i < levels.size(); ++i) {
    const double end =
        i + 1 < levels.size() ? (levels[i] + levels[i + 1]) / 2 : std::numeric_limits<double>::infinity();
    const auto found = std::upper_bound(z.x.begin() + static_cast<std::ptrdiff_t>(first), z.x.end(), end);
    const auto last = static_cast<size_t>(found - z.x.begin());
    if (last > first) {
      const double mean = (z.moment[last] - z.moment[first]) / (z.weight[last] - z.weight[first]);
      moved = moved || mean != levels[i];
      levels[i] = mean;
    }
    first = last;
  }
  return moved;
}

}  // namespace

std::vector<float> centroids(const at::Tensor& z, int64_t bits, const at::Tensor& weights) {
  const int64_t n_levels = int64_t{1} << bits;
  const Sorted sorted(z, weights);
  auto levels = evenly_spaced(n_levels);
  if (static_cast<int64_t>(sorted.x.size()) >= n_levels) {
    for (int64_t i = 0; i < n_levels; ++i) {
      levels[static_cast<size_t>(i)] =
          sorted.quantile((2 * static_cast<double>(i) + 1) / (2 * static_cast<double>(n_levels)));
    }
    for (int i = 0; i < kMaxIterations && improve(sorted, levels); ++i) {
    }
  }
  std::vector<float> result(levels.begin(), levels.end());
  std::sort(result.begin(), result.end());
  return result;
}

std::vector<float> middles_of(const std::vector<float>& levels) {
  std::vector<float> middles;
  for (size_t i = 1; i < levels.size(); ++i) middles.push_back((levels[i] + levels[i - 1]) / 2);
  return middles;
}

Moments moments_of(const at::Tensor& z, const std::vector<float>& levels) {
  const auto values = z.to(at::kFloat).flatten().contiguous();
  const auto middles = middles_of(levels);
  const int64_t n = values.numel(), n_middles = static_cast<int64_t>(middles.size());
  if (n == 0) return {};
  double sum = 0, squares = 0, sum_quantized = 0, squares_quantized = 0;
  const float* x = values.const_data_ptr<float>();
  for (int64_t i = 0; i < n; ++i) {
    const double y = levels[nearest_level(x[i], middles.data(), n_middles)];
    sum += x[i], squares += static_cast<double>(x[i]) * x[i];
    sum_quantized += y, squares_quantized += y * y;
  }
  const auto deviation = [n](double s, double s2) {
    const double mean = s / static_cast<double>(n);
    return std::sqrt(std::max(0.0, s2 / static_cast<double>(n) - mean * mean));
  };
  const double count = static_cast<double>(n);
  return {sum / count, deviation(sum, squares), sum_quantized / count, deviation(sum_quantized, squares_quantized)};
}

std::vector<float> normalized(const std::vector<float>& levels, const Moments& m) {
  const double factor = m.deviation_quantized > 0 ? m.deviation / m.deviation_quantized : 1;
  std::vector<float> result;
  for (const float level : levels) {
    result.push_back(static_cast<float>(level * factor + m.mean - m.mean_quantized * factor));
  }
  return result;
}

}  // namespace kvquant
