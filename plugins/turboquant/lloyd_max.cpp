#include "lloyd_max.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace turboquant {
namespace {

constexpr int64_t kMaxIterations = 20000;  // 4 bits take some 700

// Integrals of the density and of x times it, from 0 to x >= 0. In closed form: between the points of a grid levels
// would stand still long before they are the best.
struct Moments {
  double mass = 0, first = 0;
};

// Of cos(a)^n from 0 to a, by parts from n - 2: all terms are positive.
double integral_of_cosines(int64_t n, double a) {
  const double sine = std::sin(a), cosine = std::cos(a);
  double sum = n % 2 == 0 ? a : sine, power = n % 2 == 0 ? cosine : cosine * cosine;
  for (int64_t k = n % 2 + 2; k <= n; k += 2, power *= cosine * cosine) {
    sum = (sine * power + static_cast<double>(k - 1) * sum) / static_cast<double>(k);
  }
  return sum;
}

Moments moments_of_normal(double x) {
  return {std::erf(x / std::numbers::sqrt2) / 2, -std::expm1(-x * x / 2) / std::sqrt(2 * std::numbers::pi)};
}

class Distribution {
 public:
  explicit Distribution(int64_t d) : d_(d), whole_(d == 0 ? 0 : 2 * integral_of_cosines(d - 2, std::numbers::pi / 2)) {}

  double largest() const {
    return d_ == 0 ? std::numeric_limits<double>::infinity() : std::sqrt(static_cast<double>(d_));
  }

  // By the angle a = asin(x/sqrt(d)) the density is cos(a)^(d-2).
  Moments up_to(double x) const {
    if (d_ == 0) return moments_of_normal(x);
    const double a = x < largest() ? std::asin(x / largest()) : std::numbers::pi / 2;
    const double below = 1 - std::pow(std::cos(a), static_cast<double>(d_ - 1));
    return {integral_of_cosines(d_ - 2, a) / whole_, largest() * below / (static_cast<double>(d_ - 1) * whole_)};
  }

 private:
  int64_t d_;
  double whole_;
};

}  // namespace

Quantizer lloyd_max(int64_t bits, int64_t d) {
  const Distribution p(d);
  const auto n = static_cast<size_t>(1) << (bits - 1);  // levels above 0; those below are the same
  std::vector<double> levels(n);
  for (size_t i = 0; i < n; ++i) {
    levels[i] = std::min(3.0, p.largest()) * static_cast<double>(2 * i + 1) / static_cast<double>(2 * n);
  }
  double error = 0;
  for (int64_t iteration = 0; iteration < kMaxIterations; ++iteration) {
    double moved = 0;
    error = 1;  // the variance
    Moments from;
    const auto before = levels;
    for (size_t i = 0; i < n; ++i) {
      const auto to = p.up_to(i + 1 < n ? (before[i] + before[i + 1]) / 2 : p.largest());
      const double mass = to.mass - from.mass;
      levels[i] = (to.first - from.first) / mass;
      error -= 2 * mass * levels[i] * levels[i];
      moved = std::max(moved, std::abs(levels[i] - before[i]));
      from = to;
    }
    if (moved < 1e-12) break;
  }
  std::vector<double> all;
  for (size_t i = n; i > 0; --i) all.push_back(-levels[i - 1]);
  all.insert(all.end(), levels.begin(), levels.end());
  return {all, error};
}

}  // namespace turboquant
