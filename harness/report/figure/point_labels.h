// Names next to points, where they cover neither each other nor a point.
#pragma once

#include <span>
#include <vector>

namespace kvc {

// In points of the picture, from its lower left corner.
struct LabelBox {
  double left = 0, bottom = 0, right = 0, top = 0;
};

struct NamedPoint {
  double x = 0, y = 0, width = 0;  // of its name
};

// The boxes of names of that height, in the order of the points: of eight places around each point the one that covers
// least of what is placed already and of `inside`'s outside; crowded points may leave none that covers nothing.
std::vector<LabelBox> place_labels(std::span<const NamedPoint> points, double height, const LabelBox& inside);

}  // namespace kvc
