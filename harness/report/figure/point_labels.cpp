#include "figure/point_labels.h"

#include <algorithm>
#include <limits>

namespace kvc {
namespace {

double shared_area(const LabelBox& a, const LabelBox& b) {
  const double width = std::min(a.right, b.right) - std::max(a.left, b.left);
  const double height = std::min(a.top, b.top) - std::max(a.bottom, b.bottom);
  return width > 0 && height > 0 ? width * height : 0;
}

double area(const LabelBox& box) { return (box.right - box.left) * (box.top - box.bottom); }

// From the place that reads best to the one that reads worst.
std::vector<LabelBox> places_around(const NamedPoint& point, double height) {
  const double gap = height / 2, lefts[] = {point.x + gap, point.x - gap - point.width};
  const auto at = [&](double left, double lines) {
    const double middle = point.y + lines * height;
    return LabelBox{left, middle - height / 2, left + point.width, middle + height / 2};
  };
  std::vector<LabelBox> places;
  for (const double lines : {0.0, 0.5, -0.5, 1.0, -1.0, 1.6, -1.6}) {
    for (const double left : lefts) places.push_back(at(left, lines));
  }
  for (const double lines : {1.0, -1.0, 2.0, -2.0}) places.push_back(at(point.x - point.width / 2, lines));
  return places;
}

}  // namespace

size_t n_points_in(const LabelBox& box, std::span<const NamedPoint> points) {
  return static_cast<size_t>(std::count_if(points.begin(), points.end(), [&](const NamedPoint& point) {
    return point.x >= box.left && point.x <= box.right && point.high >= box.bottom && point.low <= box.top;
  }));
}

std::vector<LabelBox> place_labels(std::span<const NamedPoint> points, double height, const LabelBox& inside,
                                   std::vector<LabelBox> taken) {
  std::vector<LabelBox> placed;
  const double mark = height / 3;
  for (const auto& point : points) {
    taken.push_back({point.x - mark, point.y - mark, point.x + mark, point.y + mark});
    taken.push_back({point.x - 1, point.low, point.x + 1, point.high});
  }
  for (const auto& point : points) {
    LabelBox best;
    double least = std::numeric_limits<double>::max();
    for (const auto& place : places_around(point, height)) {
      double covered = 2 * (area(place) - shared_area(place, inside));
      for (const auto& other : taken) covered += shared_area(place, other);
      if (covered >= least) continue;
      least = covered;
      best = place;
    }
    placed.push_back(best);
    taken.push_back(best);
  }
  return placed;
}

bool are_crowded(std::span<const LabelBox> names, const LabelBox& inside) {
  constexpr double kMost = 0.1;  // of a name
  for (size_t i = 0; i < names.size(); ++i) {
    if (shared_area(names[i], inside) < (1 - kMost) * area(names[i])) return true;
    for (size_t j = 0; j < i; ++j) {
      if (shared_area(names[i], names[j]) > kMost * std::min(area(names[i]), area(names[j]))) return true;
    }
  }
  return false;
}

}  // namespace kvc
