// Where everything of a figure stands, so that no label or legend covers data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "figure/figure_data.h"

namespace kvc {

struct FigureShape {
  struct Panel {
    double left, right, top, bottom;  // of the plotted area, as shares of the picture from its lower left corner
  };
  int64_t width = 0, height = 0;  // points
  size_t n_columns = 1, n_legend_columns = 1;
  bool rotated = false;       // categories stand aslant
  bool names_points = false;  // names stand at the points
  bool has_legend = false;
  double scale = 1;  // of all text, 12 points as a rule
  double title_y = 0, note_y = 0, legend_y = 0;
  std::vector<Panel> panels;
};

// Width of a text of 12 points, in points.
double text_width(const std::string& text);

// with_names: as the layout wants them; without, its names are in a legend.
FigureShape figure_shape(const FigureLayout& layout, const FigureData& data, bool with_names = true);

}  // namespace kvc
