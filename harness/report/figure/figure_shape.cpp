#include "figure/figure_shape.h"

#include <algorithm>
#include <cmath>

#include "text/utf8.h"

namespace kvc {
namespace {

constexpr double kLetter = 7.4, kLine = 20;  // points of a letter of 12 points, and of a line of text
constexpr double kLeft = 84, kRight = 24, kTop = 44, kAxis = 70;

double longest(const std::vector<std::string>& texts) {
  size_t most = 0;
  for (const auto& text : texts) most = std::max(most, n_code_points(text));
  return kLetter * static_cast<double>(most);
}

bool has_names(const std::vector<std::string>& names) {
  return names.size() > 1 || (names.size() == 1 && !names[0].empty());
}

}  // namespace

FigureShape figure_shape(const FigureLayout& layout, const FigureData& data) {
  FigureShape shape;
  const size_t n = std::max<size_t>(1, data.panels.size());
  const bool is_heat = layout.kind == FigureLayout::Kind::kHeat;
  const size_t n_rows = (n + 2) / 3;            // of at most three panels
  shape.n_columns = (n + n_rows - 1) / n_rows;  // as many as the rows need: four panels stand two by two
  const double columns = static_cast<double>(shape.n_columns), rows = static_cast<double>(n_rows);
  shape.width = layout.width ? layout.width : shape.n_columns == 1 ? 860 : shape.n_columns == 2 ? 1160 : 1400;
  const double width = static_cast<double>(shape.width), right = is_heat ? 110 : kRight;
  const double panel_width = width / columns - kLeft - right;

  double tics = 0;  // what category names need below the axis
  for (const auto& categories : data.categories) {
    if (categories.empty()) continue;
    const double needed = longest(categories);
    if (needed + kLetter > panel_width / static_cast<double>(categories.size())) {
      shape.rotated = true;
      tics = std::max(tics, needed * 0.5);
    }
  }
  const double names = longest(data.series) + 56;
  shape.n_legend_columns = static_cast<size_t>(std::max(1.0, std::floor((width - 60) / names)));
  shape.n_legend_columns = std::min(shape.n_legend_columns, data.series.size());
  const size_t per_row = std::max<size_t>(1, shape.n_legend_columns);
  const double legend = has_names(data.series) && !is_heat
                            ? kLine * static_cast<double>((data.series.size() + per_row - 1) / per_row)
                            : 0;
  const double head = (layout.title.empty() ? kLine / 2.0 : kTop) + (layout.note.empty() ? 0 : kLine),
               below = kAxis + tics;
  const double panel_title = has_names(data.panels) ? kLine + 4 : 0;
  const double height =
      layout.height ? static_cast<double>(layout.height) : head + rows * (panel_title + 330 + below) + legend + 8;
  shape.height = static_cast<int64_t>(height);
  shape.title_y = 1 - 20 / height;
  shape.note_y = 1 - 42 / height;
  shape.legend_y = 6 / height;
  const double row_height = (height - head - legend - 8) / rows, column_width = width / columns;
  for (size_t i = 0; i < n; ++i) {
    const double left = static_cast<double>(i % shape.n_columns) * column_width;
    const double top = height - head - static_cast<double>(i / shape.n_columns) * row_height;
    shape.panels.push_back({(left + kLeft) / width, (left + column_width - right) / width, (top - panel_title) / height,
                            (top - row_height + below) / height});
  }
  return shape;
}

}  // namespace kvc
