#include "report/charts.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "kvc/check.h"
#include "render/escape.h"
#include "report/svg.h"
#include "text/utf8.h"

namespace kvc {
namespace {

constexpr int kColours = 12;

struct Range {
  double low = std::numeric_limits<double>::infinity(), high = -std::numeric_limits<double>::infinity();
  void add(double value) {
    if (!std::isfinite(value)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  }
};

std::string colour(size_t series) { return concat("c", series % kColours, series / kColours % 2 ? " pale" : ""); }

// More series than colours differ by their marks.
int shape_of(size_t series) { return static_cast<int>(series % 6 + series / kColours); }

std::string legend(const std::vector<std::string>& names, const std::vector<size_t>& colours, bool marks) {
  std::string text = "<figcaption class=\"legend\">";
  for (size_t i = 0; i < names.size(); ++i) {
    const auto sign =
        marks ? mark_shape(shape_of(colours[i]), 7, 7, 4.5) : "<rect x=\"1\" y=\"1\" width=\"12\" height=\"12\"/>";
    text += concat("<button type=\"button\" data-series=\"", i, "\"><svg width=\"14\" height=\"14\"><g class=\"",
                   colour(colours[i]), "\">", sign, "</g></svg>", escape_html(names[i]), "</button>");
  }
  return text + "</figcaption>";
}

std::string figure(const std::string& title, const std::string& svg, const std::string& legend_text) {
  return concat("<figure><h3>", escape_html(title), "</h3><div class=\"wide\">", svg, "</div>", legend_text,
                "</figure>\n");
}

Scale scale_of(const std::vector<double>& ticks, double from, double to) {
  return {ticks.front(), ticks.back(), from, to};
}

struct Frame {
  double left, top, right, bottom;
  Scale x, y;
};

void draw_frame(Svg& svg, const Frame& frame, const std::vector<double>& x_ticks, const std::vector<double>& y_ticks,
                const XyChart& chart) {
  for (const double tick : y_ticks) {
    const double y = frame.y.at(tick);
    svg.line(frame.left, y, frame.right, y, "grid");
    svg.text(frame.left - 8, y + 4, short_number(tick), "end");
  }
  for (const double tick : x_ticks) {
    const double x = frame.x.at(tick);
    svg.line(x, frame.bottom, x, frame.bottom + 5, "axis");
    svg.text(x, frame.bottom + 19, short_number(tick), "middle");
  }
  svg.line(frame.left, frame.bottom, frame.right, frame.bottom, "axis");
  svg.line(frame.left, frame.top, frame.left, frame.bottom, "axis");
  svg.text((frame.left + frame.right) / 2, frame.bottom + 38, chart.x_name, "middle name");
  svg.text(frame.left - 8, frame.top - 12, chart.y_name, "start name");
}

// From the left, always upwards: what the best point reaches within so many bytes.
void draw_front(Svg& svg, const Frame& frame, const std::vector<std::pair<double, double>>& front) {
  std::vector<std::pair<double, double>> steps;
  for (const auto& [x, y] : front) {
    if (!steps.empty()) steps.emplace_back(frame.x.at(x), steps.back().second);
    steps.emplace_back(frame.x.at(x), frame.y.at(y));
  }
  if (steps.empty()) return;
  steps.emplace_back(frame.right, steps.back().second);
  svg.path(steps, "front");
}

void draw_series(Svg& svg, const Frame& frame, const ChartSeries& series, size_t place, size_t index, bool lines) {
  svg.open_group(concat("data-series=\"", place, "\""));
  if (lines) {
    std::vector<std::pair<double, double>> points;
    for (const auto& point : series.points) {
      if (std::isfinite(point.y)) points.emplace_back(frame.x.at(point.x), frame.y.at(point.y));
    }
    svg.path(points, "line " + colour(index));
  }
  for (const auto& point : series.points) {
    if (!std::isfinite(point.x) || !std::isfinite(point.y)) continue;
    const double x = frame.x.at(point.x);
    if (point.low < point.high) {
      const double low = frame.y.at(point.low), high = frame.y.at(point.high);
      const auto css = "bar " + colour(index);
      svg.line(x, low, x, high, css);
      svg.line(x - 3, low, x + 3, low, css);
      svg.line(x - 3, high, x + 3, high, css);
    }
    svg.mark(shape_of(index), x, frame.y.at(point.y), colour(index) + (point.hollow ? " hollow" : ""), point.title,
             point.link);
  }
  svg.close_group();
}

double largest_value(const BarChart& chart) {
  double largest = 0;
  for (const auto& bar : chart.bars) {
    double sum = 0;
    for (const double value : bar.values) {
      if (!std::isfinite(value)) continue;
      sum += value;
      if (!chart.stacked) largest = std::max(largest, value);
    }
    if (chart.stacked) largest = std::max(largest, sum);
  }
  return largest;
}

std::string shortened(const std::string& text, size_t most) {
  const auto points = to_code_points_replacing(text);
  return points.size() <= most ? text : to_utf8(points.substr(0, most - 3)) + "...";
}

struct BarPlace {
  double top, height;
  Scale x;
};

void draw_bar(Svg& svg, const BarChart& chart, const BarChart::Bar& bar, const BarPlace& place) {
  double end = place.x.at(0), y = place.top;
  const double thickness = chart.stacked ? place.height : place.height / static_cast<double>(chart.parts.size());
  for (size_t i = 0; i < bar.values.size(); ++i) {
    const double value = std::isfinite(bar.values[i]) ? bar.values[i] : 0;
    const double width = place.x.at(value) - place.x.at(0);
    if (value > 0) {
      svg.rect(end, y, width, thickness, colour(i) + concat(" s", i),
               concat(bar.label, "\n", chart.parts[i], ": ", short_number(value)));
    }
    if (chart.stacked) {
      end += width;
    } else {
      y += thickness;
    }
  }
}

}  // namespace

std::string draw(const XyChart& chart) {
  Range xs, ys;
  for (const auto& series : chart.series) {
    for (const auto& point : series.points) {
      xs.add(point.x);
      for (const double y : {point.y, point.low, point.high}) ys.add(y);
    }
  }
  if (!std::isfinite(xs.low) || !std::isfinite(ys.low)) return "";
  if (!chart.lines) xs.low = std::min(0.0, xs.low);
  if (chart.lines) ys.low = std::min(0.0, ys.low);
  if (chart.lines) xs.high = std::max(xs.high, xs.low + 1);
  auto x_ticks = round_ticks(xs.low, xs.high, 10);
  if (chart.lines) std::erase_if(x_ticks, [](double x) { return x != std::round(x); });  // layers
  const auto y_ticks = round_ticks(ys.low, ys.high, 6);
  Frame frame{70, 36, 860, 380, {}, {}};
  frame.x = scale_of(x_ticks, frame.left, frame.right);
  frame.y = scale_of(y_ticks, frame.bottom, frame.top);
  Svg svg(880, 430, chart.title);
  draw_frame(svg, frame, x_ticks, y_ticks, chart);
  draw_front(svg, frame, chart.front);
  std::vector<std::string> names;
  std::vector<size_t> colours;
  for (size_t i = 0; i < chart.series.size(); ++i) {
    names.push_back(chart.series[i].name);
    colours.push_back(chart.series[i].method.value_or(i));
    draw_series(svg, frame, chart.series[i], i, colours.back(), chart.lines);
  }
  return figure(chart.title, svg.str(), legend(names, colours, true));
}

std::string draw(const BarChart& chart) {
  if (chart.bars.empty()) return "";
  constexpr double kLabel = 17, kBar = 14, kRow = kLabel + kBar + 4;  // each label is drawn above its bar
  const double left = 10, top = 10, right = left + 560, bottom = top + kRow * static_cast<double>(chart.bars.size());
  const auto ticks = round_ticks(0, largest_value(chart), 6);
  const auto x = scale_of(ticks, left, right);
  Svg svg(right + 30, bottom + 44, chart.title);
  for (const double tick : ticks) {
    svg.line(x.at(tick), top, x.at(tick), bottom, "grid");
    svg.text(x.at(tick), bottom + 18, short_number(tick), tick == ticks.front() ? "" : "middle");
  }
  svg.text((left + right) / 2, bottom + 38, chart.x_name, "middle name");
  for (size_t i = 0; i < chart.bars.size(); ++i) {
    const double y = top + kRow * static_cast<double>(i);
    svg.text(left + 2, y + kLabel - 4, shortened(chart.bars[i].label, 88), "");
    draw_bar(svg, chart, chart.bars[i], {y + kLabel, kBar, x});
  }
  svg.line(left, top, left, bottom, "axis");
  std::vector<size_t> colours(chart.parts.size());
  std::iota(colours.begin(), colours.end(), size_t{0});
  return figure(chart.title, svg.str(), legend(chart.parts, colours, false));
}

}  // namespace kvc
