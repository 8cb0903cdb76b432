// What a figure shows: points by panel and series, from one query, and the .dat file of them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "figure/figure_layout.h"
#include "store/database.h"

namespace kvc {

struct FigurePoint {
  double x = 0;                               // of a category its place from 1 on
  std::string label;                          // x as the query gave it
  std::vector<std::optional<double>> values;  // as FigureData::value_names; nothing: NULL or not finite
};

struct FigureBlock {
  size_t panel = 0, series = 0;
  std::vector<FigurePoint> points;
};

// How a series is marked where the query says whose it is: a colour for each method, a mark for its bits.
struct SeriesLook {
  size_t method = 0;           // its place among all methods of the database
  std::optional<double> bits;  // per value
};

struct FigureData {
  std::vector<std::string> value_names;              // of the .dat file's columns behind x and label
  std::vector<std::optional<SeriesLook>> looks;      // of each series; nothing: by its place in the figure
  std::vector<std::string> panels, series;           // in the order of the query; one "" where it names none
  std::vector<std::vector<std::string>> categories;  // x of each panel where it is a text; empty where it is a number
  std::vector<FigureBlock> blocks;                   // panel by panel, series by series; none without points
  size_t n_points() const;
};

// `sql` is one SELECT over the temporary tables of analysis/entries.h that reads `entry`. Columns: x (all numbers, or
// texts), and by kind y (lines, bars, scatter, stacked), q1, median, q3, low, high (box), y and value (heat); may be:
// panel, series, of a series method and bits, and low and high, an interval of y. Others are refused. Stacked parts lie on one another: low and high
// become their edges. Throws Error with `name` in front.
FigureData read_figure_data(Database& db, const std::string& name, const std::string& sql, const FigureLayout& layout);

// One block for each index that gnuplot reads: "x label values...", "?" where there is none.
std::string write_dat(const FigureData& data);

}  // namespace kvc
