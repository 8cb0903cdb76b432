#include "codec.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace kvquant::codec {
float quantile(std::vector<float>& x, double p) {
  const double at = p * static_cast<double>(x.size() - 1);
  const auto below = static_cast<size_t>(std::floor(at));
  const auto nth = x.begin() + static_cast<std::ptrdiff_t>(below);
  std::nth_element(x.begin(), nth, x.end());
  const float a = *nth, b = nth + 1 == x.end() ? a : *std::min_element(nth + 1, x.end());
  const auto weight = static_cast<float>(at - std::floor(at));
  return weight < 0.5f ? a + weight * (b - a) : b - (b - a) * (1 - weight);
}

Bounds bounds_between(const float* x, int64_t n, float lower, float upper) {
  Bounds bounds{std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()};
  for (int64_t i = 0; i < n; ++i) {
    if (is_outlier(x[i], lower, upper, true)) continue;
    bounds.smallest = std::min(bounds.smallest, x[i]), bounds.largest = std::max(bounds.largest, x[i]);
  }
  if (bounds.smallest > bounds.largest) return {lower, lower};
  return bounds;
}

float normalized(float x, float zero, float scale) {
  constexpr float kHuge = 3e38f;
  const float z = (x - zero) / scale;
  if (std::isnan(z)) return 0;
  return std::clamp(z, -kHuge, kHuge);
}

}  // namespace kvquant::codec
