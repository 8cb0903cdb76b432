// Names next to points, where they cover neither each other nor a point.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace kvc {

// In points of the picture, from its lower left corner.
struct LabelBox {
  double left = 0, bottom = 0, right = 0, top = 0;
};

struct NamedPoint {
  double x = 0, y = 0, width = 0;  // of its name
  double low = y, high = y;        // the ends of its interval
};

// The boxes of names of that height, in the order of the points: of the places around each point the one that covers
// least of points, intervals, names placed already, `taken` and of `inside`'s outside, the nearest of those.
std::vector<LabelBox> place_labels(std::span<const NamedPoint> points, double height, const LabelBox& inside,
                                   std::vector<LabelBox> taken = {});

// How many points, intervals included, lie in a box.
size_t n_points_in(const LabelBox& box, std::span<const NamedPoint> points);

// Whether a name covers another, or goes beyond `inside`: crowded points may leave no room.
bool are_crowded(std::span<const LabelBox> names, const LabelBox& inside);

}  // namespace kvc
