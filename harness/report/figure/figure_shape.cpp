#include "figure/figure_shape.h"

#include <algorithm>
#include <cmath>

#include "text/utf8.h"

namespace kvc {
namespace {

// Points of a letter of 12 points, of a line of text, and of a line of gnuplot's legend.
constexpr double kLetterOf12 = 7.4, kLineOf12 = 20, kLegendLineOf12 = 16;
constexpr double kPrintScale = 7 / 9.0;  // 7 points of 1/72 inch, where 12 of 1/96 inch are 9

double longest(const std::vector<std::string>& texts) {
  double most = 0;
  for (const auto& text : texts) most = std::max(most, text_width(text));
  return most;
}

bool has_names(const std::vector<std::string>& names) {
  return names.size() > 1 || (names.size() == 1 && !names[0].empty());
}

}  // namespace

double text_width(const std::string& text) { return kLetterOf12 * static_cast<double>(n_code_points(text)); }

FigureShape figure_shape(const FigureLayout& layout, const FigureData& data, bool with_names) {
  FigureShape shape;
  shape.scale = layout.for_print ? kPrintScale : 1;
  const double letter = kLetterOf12 * shape.scale, line = kLineOf12 * shape.scale,
               margin = (layout.y.is_log ? 100 : 84) * shape.scale, far_side = 24 * shape.scale,
               top_of_all = 44 * shape.scale, axis = 70 * shape.scale;
  const size_t n = std::max<size_t>(1, data.panels.size());
  const bool is_heat = layout.kind == FigureLayout::Kind::kHeat;
  const size_t n_rows = (n + 2) / 3;            // of at most three panels
  shape.n_columns = (n + n_rows - 1) / n_rows;  // as many as the rows need: four panels stand two by two
  const double columns = static_cast<double>(shape.n_columns), rows = static_cast<double>(n_rows);
  shape.width = layout.width ? layout.width : shape.n_columns == 1 ? 860 : shape.n_columns == 2 ? 1160 : 1400;
  const double width = static_cast<double>(shape.width), right = is_heat ? 110 : far_side;
  const double panel_width = width / columns - margin - right;

  double tics = 0;  // what category names need below the axis
  for (const auto& categories : data.categories) {
    if (categories.empty()) continue;
    const double needed = shape.scale * longest(categories);
    if (needed + letter > panel_width / static_cast<double>(categories.size())) {
      shape.rotated = true;
      tics = std::max(tics, needed * 0.5);
    }
  }
  const double names = shape.scale * (longest(data.series) + 56);
  shape.n_legend_columns = static_cast<size_t>(std::max(1.0, std::floor((width - 60) / names)));
  shape.n_legend_columns = std::min(shape.n_legend_columns, data.series.size());
  const size_t per_row = std::max<size_t>(1, shape.n_legend_columns);
  shape.names_points = layout.names_points && with_names;
  shape.has_legend = has_names(data.series) && !is_heat && !shape.names_points;
  const double legend = shape.has_legend ? kLegendLineOf12 * shape.scale *
                                               static_cast<double>((data.series.size() + per_row - 1) / per_row)
                                         : 0;
  const double head = (layout.title.empty() ? line / 2.0 : top_of_all) + (layout.note.empty() ? 0 : line),
               below = axis + tics;
  const double panel_title = has_names(data.panels) ? line + 4 : 0;
  const double panel_height = layout.for_print ? 0.62 * panel_width : 330;
  const double height = layout.height ? static_cast<double>(layout.height)
                                      : head + rows * (panel_title + panel_height + below) + legend + 8;
  shape.height = static_cast<int64_t>(height);
  shape.title_y = 1 - line / height;
  shape.note_y = 1 - 2.1 * line / height;
  shape.legend_y = 6 / height;
  const double row_height = (height - head - legend - 8) / rows, column_width = width / columns;
  for (size_t i = 0; i < n; ++i) {
    const double left = static_cast<double>(i % shape.n_columns) * column_width;
    const double top = height - head - static_cast<double>(i / shape.n_columns) * row_height;
    shape.panels.push_back({(left + margin) / width, (left + column_width - right) / width,
                            (top - panel_title) / height, (top - row_height + below) / height});
  }
  return shape;
}

}  // namespace kvc
