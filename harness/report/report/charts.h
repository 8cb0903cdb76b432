// The charts of a report, each a <figure> with its legend; a click on a legend's entry hides the series.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace kvc {

struct ChartPoint {
  double x = 0, y = 0, low = 0, high = 0;  // low and high: the interval of y; both y where there is none
  std::string title;                       // shown on hovering
  std::string link = "";                   // "#cell-..."
  bool hollow = false;
};

struct ChartSeries {
  std::string name;
  std::vector<ChartPoint> points;
  std::optional<size_t> method = std::nullopt;  // its colour: the place among stored_methods(); nothing: by place here
};

// Points with error bars, or lines from point to point.
struct XyChart {
  std::string title, x_name, y_name;
  std::vector<ChartSeries> series;
  bool lines = false;
  std::vector<std::pair<double, double>> front = {};  // drawn as steps through these points
};

// Horizontal bars, their parts one after the other, or one below the other.
struct BarChart {
  struct Bar {
    std::string label;
    std::vector<double> values;  // one a part; NaN: none
    std::string link = "";
  };
  std::string title, x_name;
  std::vector<std::string> parts;
  std::vector<Bar> bars;
  bool stacked = true;
};

std::string draw(const XyChart& chart);
std::string draw(const BarChart& chart);

}  // namespace kvc
