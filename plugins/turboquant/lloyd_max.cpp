#include "lloyd_max.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace turboquant {
namespace {

constexpr int64_t kCells = 20000;  // of the integrals, by angle
constexpr int64_t kMaxIterations = 20000;

// Masses of the distribution at kCells points, ascending, with running sums of mass, first and second moment.
struct Distribution {
  std::vector<double> x, mass, first, second;  // sums have kCells + 1 entries
};

// By the angle a = asin(x/sqrt(d)) the density is cos(a)^(d-2), smooth to its ends; N(0, 1) is cut at 9.
Distribution distribution(int64_t d) {
  Distribution p{std::vector<double>(kCells), {0}, {0}, {0}};
  double total = 0;
  std::vector<double> masses(kCells);
  for (int64_t i = 0; i < kCells; ++i) {
    const double u = 2 * (static_cast<double>(i) + 0.5) / kCells - 1;  // (-1, 1)
    if (d == 0) {
      p.x[i] = 9 * u;
      masses[i] = std::exp(-p.x[i] * p.x[i] / 2);
    } else {
      const double angle = u * std::numbers::pi / 2;
      p.x[i] = std::sqrt(static_cast<double>(d)) * std::sin(angle);
      masses[i] = std::pow(std::cos(angle), static_cast<double>(d - 2));
    }
    total += masses[i];
  }
  for (int64_t i = 0; i < kCells; ++i) {
    const double mass = masses[i] / total;
    p.mass.push_back(p.mass.back() + mass);
    p.first.push_back(p.first.back() + mass * p.x[i]);
    p.second.push_back(p.second.back() + mass * p.x[i] * p.x[i]);
  }
  return p;
}

}  // namespace

Quantizer lloyd_max(int64_t bits, int64_t d) {
  const auto p = distribution(d);
  const int64_t n = int64_t{1} << bits;
  std::vector<double> levels(n);
  for (int64_t i = 0; i < n; ++i) {  // from the quantiles
    const double mass = (static_cast<double>(i) + 0.5) / static_cast<double>(n);
    levels[i] = p.x[std::upper_bound(p.mass.begin() + 1, p.mass.end() - 1, mass) - p.mass.begin() - 1];
  }
  double error = 0;
  for (int64_t iteration = 0; iteration < kMaxIterations; ++iteration) {
    double moved = 0;
    error = 0;
    int64_t first = 0;
    const auto before = levels;
    for (int64_t i = 0; i < n; ++i) {
      const int64_t last =
          i + 1 < n ? std::upper_bound(p.x.begin(), p.x.end(), (before[i] + before[i + 1]) / 2) - p.x.begin() : kCells;
      const double mass = p.mass[last] - p.mass[first], sum = p.first[last] - p.first[first];
      if (mass > 0) levels[i] = sum / mass;
      error += p.second[last] - p.second[first] - 2 * levels[i] * sum + levels[i] * levels[i] * mass;
      moved = std::max(moved, std::abs(levels[i] - before[i]));
      first = last;
    }
    if (moved < 1e-10) break;
  }
  for (int64_t i = 0; i < n / 2; ++i) {  // the distribution is symmetric, its sum on a grid nearly so
    const double level = (levels[n - 1 - i] - levels[i]) / 2;
    levels[i] = -level, levels[n - 1 - i] = level;
  }
  return {levels, error};
}

}  // namespace turboquant
