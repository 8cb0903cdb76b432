// The script that draws a figure's .dat file with gnuplot 5.4.
#pragma once

#include <string>

#include "figure/figure_data.h"

namespace kvc {

// `dat` and `picture` are file names as the script shall write them, relative to its own folder. `format`: svg, pdf,
// png. Colours are Okabe and Ito's, told apart by colour-blind readers; marks differ, too. No text is interpreted as
// markup.
std::string write_gnuplot(const FigureLayout& layout, const FigureData& data, const std::string& dat,
                          const std::string& picture, const std::string& format);

}  // namespace kvc
