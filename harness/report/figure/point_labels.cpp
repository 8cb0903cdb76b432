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
  const double gap = height / 2;
  const auto at = [&](double left, double middle) {
    return LabelBox{left, middle - height / 2, left + point.width, middle + height / 2};
  };
  const double right = point.x + gap, left = point.x - gap - point.width, centred = point.x - point.width / 2;
  return {
      at(right, point.y),      at(right, point.y + gap), at(right, point.y - gap),      at(left, point.y),
      at(left, point.y + gap), at(left, point.y - gap),  at(centred, point.y + height), at(centred, point.y - height)};
}

}  // namespace

std::vector<LabelBox> place_labels(std::span<const NamedPoint> points, double height, const LabelBox& inside) {
  std::vector<LabelBox> taken, placed;
  const double mark = height / 3;
  for (const auto& point : points) taken.push_back({point.x - mark, point.y - mark, point.x + mark, point.y + mark});
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

}  // namespace kvc
