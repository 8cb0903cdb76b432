// Draws a figure: writes its .gp and .dat beside the picture and runs gnuplot on them.
#pragma once

#include <filesystem>

#include "figure/figure_data.h"

namespace kvc {

struct DrawnFigure {
  std::filesystem::path script, dat;
};

// `picture` ends in .svg, .pdf or .png. Throws EnvironmentError where gnuplot is not there or fails; the script and the
// .dat file stay.
DrawnFigure draw_figure(const FigureLayout& layout, const FigureData& data, const std::filesystem::path& picture);

}  // namespace kvc
