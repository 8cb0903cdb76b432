// A figure as data: results/figures/<paper>/<name>.yaml says how it looks, <name>.sql what it shows.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace kvc {

struct FigureAxis {
  std::string label, unit;  // "KV size [%]"
  bool is_log = false;
  std::optional<double> min, max;
};

struct FigureLayout {
  enum class Kind { kLines, kBars, kStacked, kScatter, kBox, kHeat };
  std::string title;
  Kind kind = Kind::kLines;
  FigureAxis x, y, z;              // z: the colours of a heat map
  std::vector<std::string> fills;  // experiment files below the root that bring its cells
  std::string note;                // stands below the title
  bool names_points = false;       // of a scatter plot: names at the points where they have room, in place of a legend
  std::string front;               // "low" or "high": a line through the points that none beats in x and y; "": none
  std::vector<std::pair<std::string, double>> bounds;  // named horizontal lines
  bool for_print = false;                              // text of 7 points at the picture's own size
  int64_t width = 0, height = 0;                       // points of the picture; 0: by the number of panels
};

struct FigureFiles {
  std::string name;     // "paper:name"; of any experiment's figure, in results/figures/own, "name"
  bool is_own = false;  // the latter
  std::filesystem::path layout, sql;
};

// YAML: title, kind, x, y, z: {label, unit, log, min, max}, fills, note, names_points, front, bounds,
// width, height. Throws Error file:line:column.
FigureLayout load_figure_layout(const std::filesystem::path& yaml_file);

// Below <root>/results/figures, in order of names. Throws Error for an unknown name, with the nearest.
std::vector<FigureFiles> all_figures(const std::filesystem::path& root);
FigureFiles find_figure(const std::filesystem::path& root, const std::string& name);

}  // namespace kvc
