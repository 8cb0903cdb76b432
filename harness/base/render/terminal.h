// A table and a plot for a person at a terminal; programs get Markdown, CSV or JSON.
#pragma once

#include <string>
#include <vector>

#include "render/table.h"

namespace kvc {

struct Terminal {
  size_t width = 0;     // in characters; 0: there is none
  bool colour = false;  // NO_COLOR is not set, and TERM is not dumb
};

Terminal standard_output();

// Columns that fit the width, the main ones before the others; long texts are cut, and a line says what is left out.
std::string write_terminal(const Table& table, const Terminal& terminal);

// What a verb prints: write_terminal of Markdown where there is a terminal, else write_table; `wide`: always that.
std::string write_shown(const Table& table, const std::string& format, bool wide);

struct PlotPoint {
  std::string name;
  double x = 0, y = 0;
};

// Points as letters in a frame, with a legend below; "" for fewer than two.
std::string text_plot(const std::vector<PlotPoint>& points, const std::string& x_name, const std::string& y_name,
                      size_t width);

}  // namespace kvc
