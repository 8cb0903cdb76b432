#include "figure/gnuplot_script.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>

#include "figure/figure_shape.h"
#include "figure/point_labels.h"
#include "kvc/check.h"

namespace kvc {
namespace {

using Kind = FigureLayout::Kind;

// Those of pages, report/report.css.
constexpr const char* kColours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8c6d00", "#56b4e9",
                                    "#7b3fa0", "#a6192e", "#4d7c0f", "#6b7280", "#0e7490", "#e69f00"};
constexpr size_t kNColours = std::size(kColours);
constexpr int kMarks[] = {7, 5, 9, 13, 11, 6, 4, 8};
constexpr size_t kMostMarks = 40;  // longer lines are drawn without

// In single quotes nothing is substituted; only the quote itself is doubled.
std::string in_quotes(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? "''" : std::string(1, c == '\n' || c == '\r' ? ' ' : c);
  return out + "'";
}

// A tic's text is a format of its place.
std::string tic_in_quotes(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '%' ? "%%" : std::string(1, c);
  return in_quotes(out);
}

std::string short_number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

std::string axis_title(const FigureAxis& axis) {
  return axis.unit.empty() ? axis.label : concat(axis.label, " [", axis.unit, "]");
}

std::string range(const std::optional<double>& min, const std::optional<double>& max) {
  return concat("[", min ? short_number(*min) : "*", ":", max ? short_number(*max) : "*", "]");
}

struct Span {
  double low = 0, high = 0;
};

// A logarithmic axis takes no offsets, and would go on to the next power of ten: the room beside its points as factors.
std::optional<Span> log_span(const FigureAxis& axis, const std::vector<double>& values) {
  Span span;
  for (const double value : values) {
    if (!(value > 0)) continue;
    span.low = span.low > 0 ? std::min(span.low, value) : value;
    span.high = std::max(span.high, value);
  }
  if (!(span.low > 0)) return std::nullopt;
  const double room = std::max(1.05, std::pow(span.high / span.low, 0.04));
  return Span{axis.min ? *axis.min : span.low / room, axis.max ? *axis.max : span.high * room};
}

std::string log_range(const FigureAxis& axis, const std::vector<double>& values) {
  const auto span = log_span(axis, values);
  return span ? range(span->low, span->high) : range(axis.min, axis.max);
}

// Where fewer than two powers of ten would be named: 1, 2 and 5 times each.
std::string log_tics(const FigureAxis& axis, const std::vector<double>& values) {
  const auto span = log_span(axis, values);
  if (!span || !(span->low > 0) || std::floor(std::log10(span->high)) > std::ceil(std::log10(span->low)))
    return "autofreq";
  std::string text;
  for (double power = std::pow(10, std::floor(std::log10(span->low))); power <= span->high; power *= 10) {
    for (const double tic : {power, 2 * power, 5 * power}) {
      if (tic >= span->low && tic <= span->high) text += concat(text.empty() ? "" : ", ", short_number(tic));
    }
  }
  return text.empty() ? "autofreq" : concat("(", text, ")");
}

// The places of a panel's points, or their values with the ends of intervals.
std::vector<double> values_of(const FigureData& data, size_t panel, bool of_x) {
  std::vector<double> values;
  for (const auto& block : data.blocks) {
    if (block.panel != panel) continue;
    for (const auto& point : block.points) {
      if (of_x) values.push_back(point.x);
      for (const auto& value : point.values) {
        if (!of_x && value) values.push_back(*value);
      }
    }
  }
  return values;
}

std::string terminal(const FigureShape& shape, const std::string& format) {
  const double font = shape.scale * (format == "pdf" ? 9 : format == "png" ? 10 : 12);
  if (format == "pdf") {  // which draws text at two thirds of its size unless it is told otherwise
    return concat("set terminal pdfcairo noenhanced font 'sans,", short_number(font), "' fontscale 0.75 size ",
                  short_number(shape.width / 96.0), ",", short_number(shape.height / 96.0));
  }
  return concat("set terminal ", format == "png" ? "pngcairo" : "svg", " noenhanced background rgb 'white' font 'sans,",
                short_number(font), "' size ", shape.width, ",", shape.height);
}

// What a panel with names at its points spans: known, since the names' places follow from it.
struct PanelSpan {
  Span x, y;
};

PanelSpan named_span(const FigureLayout& layout, const FigureData& data, size_t panel) {
  const auto span_of = [](const FigureAxis& axis, const std::vector<double>& values) {
    if (axis.is_log) {
      if (const auto span = log_span(axis, values)) return Span{span->low / 1.3, span->high * 1.3};
    }
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    const double span = *high - axis.min.value_or(*low);
    const double room = span > 0 ? 0.06 * span : std::max(0.5, 0.05 * std::abs(*high));  // all of one value
    return Span{axis.min ? *axis.min : *low - room, axis.max ? *axis.max : *high + room};
  };
  const auto xs = values_of(data, panel, true), ys = values_of(data, panel, false);
  if (ys.empty()) return {{0, 1}, {layout.y.is_log ? 0.1 : 0, 1}};
  return {span_of(layout.x, xs), span_of(layout.y, ys)};
}

double share_of(double value, const Span& span, bool is_log) {
  return is_log ? std::log(value / span.low) / std::log(span.high / span.low)
                : (value - span.low) / (span.high - span.low);
}

struct Segment {
  double from_x, from_y, x, y;
};

// Steps through the points that none of smaller x beats in y.
std::vector<Segment> front(std::vector<std::pair<double, double>> points, bool low_is_better) {
  std::sort(points.begin(), points.end());
  std::vector<Segment> steps;
  std::optional<std::pair<double, double>> last;
  for (const auto& [x, y] : points) {
    if (last && (low_is_better ? y >= last->second : y <= last->second)) continue;
    if (last) {
      steps.push_back({last->first, last->second, x, last->second});
      steps.push_back({x, last->second, x, y});
    }
    last = {x, y};
  }
  return steps;
}

std::string drawn(const std::vector<Segment>& segments) {
  std::string text;
  for (const auto& s : segments) {
    text += concat("set arrow from first ", short_number(s.from_x), ",", short_number(s.from_y), " to first ",
                   short_number(s.x), ",", short_number(s.y), " back nohead lw 1 lc rgb '#909090'\n");
  }
  return text;
}

// Names at the points of a panel.
struct PanelNames {
  PanelSpan span;
  LabelBox inside;
  std::vector<NamedPoint> points;
  std::vector<size_t> series;
  std::vector<std::pair<double, double>> values;
  std::vector<LabelBox> boxes;
  std::string lines;  // commands that draw the bounds and the front
};

// Above the line at that height, at its end with fewer points.
LabelBox place_of_bound(const PanelNames& names, double y, double width, double height) {
  const auto& inside = names.inside;
  const double gap = 0.01 * (inside.right - inside.left);
  const LabelBox left{inside.left + gap, y, inside.left + gap + width, y + height},
      right{inside.right - gap - width, y, inside.right - gap, y + height};
  return n_points_in(left, names.points) <= n_points_in(right, names.points) ? left : right;
}

std::string bound(const std::string& name, double y, bool is_right) {
  const auto at = short_number(y);
  return concat("set arrow from graph 0,first ", at, " to graph 1,first ", at, " nohead dt 2 lc rgb '#909090'\n",
                "set label ", in_quotes(name), " at graph ", is_right ? "0.99" : "0.01", ",first ", at,
                is_right ? " right" : " left", " offset 0,0.4 tc rgb '#707070'\n");
}

PanelNames place_names(const FigureLayout& layout, const FigureData& data, size_t panel, const FigureShape& shape) {
  const auto& place = shape.panels[panel];
  const auto width = static_cast<double>(shape.width), height = static_cast<double>(shape.height);
  PanelNames names{.span = named_span(layout, data, panel),
                   .inside = {place.left * width, place.bottom * height, place.right * width, place.top * height}};
  const auto& inside = names.inside;
  const auto at = [&](double y) {
    const double share = std::clamp(share_of(y, names.span.y, layout.y.is_log), 0.0, 1.0);
    return inside.bottom + share * (inside.top - inside.bottom);
  };
  const auto left_of = [&](double x) {
    return inside.left + share_of(x, names.span.x, layout.x.is_log) * (inside.right - inside.left);
  };
  for (const auto& block : data.blocks) {
    for (const auto& point : block.points) {
      if (block.panel != panel || !point.values[0]) continue;
      const double y = *point.values[0];
      const auto end = [&](size_t k) { return at(point.values.size() > k ? point.values[k].value_or(y) : y); };
      names.points.push_back(
          {left_of(point.x), at(y), shape.scale * text_width(data.series[block.series]), end(1), end(2)});
      names.series.push_back(block.series);
      names.values.emplace_back(point.x, y);
    }
  }
  const double height_of_text = 13 * shape.scale;
  std::vector<LabelBox> taken;
  for (const auto& [name, y] : layout.bounds) {
    if (y >= names.span.y.low && y <= names.span.y.high) {
      taken.push_back(place_of_bound(names, at(y), shape.scale * text_width(name), height_of_text));
      names.lines += bound(name, y, taken.back().left > inside.left + 0.5 * (inside.right - inside.left));
    }
  }
  if (!layout.front.empty()) {
    const auto steps = front(names.values, layout.front == "low");
    names.lines += drawn(steps);
    for (const auto& s : steps) {
      const double y = at(s.from_y), end = at(s.y);
      taken.push_back({left_of(s.from_x) - 1, std::min(y, end) - 1, left_of(s.x) + 1, std::max(y, end) + 1});
    }
  }
  names.boxes = place_labels(names.points, height_of_text, inside, std::move(taken));
  return names;
}

bool has_crowded_names(const FigureLayout& layout, const FigureData& data, const FigureShape& shape) {
  for (size_t panel = 0; panel < data.panels.size(); ++panel) {
    const auto names = place_names(layout, data, panel, shape);
    if (are_crowded(names.boxes, names.inside)) return true;
  }
  return false;
}

std::string ranges_of(const FigureLayout& layout, const PanelSpan& span) {
  return concat("set yrange ", range(span.y.low, span.y.high), "\nset xrange ", range(span.x.low, span.x.high), "\n",
                layout.x.is_log ? "" : "set xtics autofreq\n");
}

// Ranges, names at the points where the shape has them, bounds, and the line through the points that none beats.
std::string named_points(const FigureLayout& layout, const FigureData& data, size_t panel, const FigureShape& shape) {
  auto names = place_names(layout, data, panel, shape);
  auto text = ranges_of(layout, names.span);
  const auto width = static_cast<double>(shape.width), height = static_cast<double>(shape.height);
  for (size_t i = 0; i < names.boxes.size() && shape.names_points; ++i) {
    const auto& box = names.boxes[i];
    const bool is_left = box.right<names.points[i].x, is_right = box.left> names.points[i].x;
    const double anchor = is_left ? box.right : is_right ? box.left : (box.left + box.right) / 2;
    const char* side = is_left ? " right" : is_right ? " left" : " center";
    text += concat("set label ", in_quotes(data.series[names.series[i]]), " at screen ", anchor / width, ",",
                   (box.bottom + box.top) / 2 / height, side, " front\n");
  }
  return text + names.lines;
}

// By the bits of a value: circle, square, triangle, diamond, triangle upside down.
int mark_of(const std::optional<double>& bits) {
  if (!bits || *bits > 9) return 7;
  return *bits > 6 ? 5 : *bits > 3.5 ? 9 : *bits > 2.5 ? 13 : 11;
}

std::string styles(const FigureData& data, double scale) {
  std::string text;
  for (size_t i = 0; i < data.series.size(); ++i) {
    const auto& look = data.looks[i];
    const size_t colour = look ? look->method : i;
    text += concat("set style line ", i + 1, " lc rgb '", kColours[colour % kNColours], "' lw 2 pt ",
                   look ? mark_of(look->bits) : kMarks[(i + i / kNColours) % 8], " ps ", short_number(scale), " dt ",
                   1 + colour / kNColours % 5, "\n");
  }
  return text;
}

std::string axes(const FigureLayout& layout, const FigureData& data, size_t panel, const FigureShape& shape) {
  std::string text = concat("set ylabel ", panel % shape.n_columns == 0 ? in_quotes(axis_title(layout.y)) : "''", "\n");
  const auto& categories = data.categories[panel];
  const bool is_flat = layout.kind == Kind::kBars || layout.kind == Kind::kStacked;
  const auto least = layout.y.min ? layout.y.min : is_flat && !layout.y.is_log ? std::optional(0.0) : std::nullopt;
  const bool has_marks = layout.kind == Kind::kLines || layout.kind == Kind::kScatter;
  const bool has_log_marks = has_marks && layout.y.is_log;
  const auto heights = has_log_marks ? values_of(data, panel, false) : std::vector<double>{};
  text += concat("set yrange ", has_log_marks ? log_range(layout.y, heights) : range(least, layout.y.max),
                 layout.kind == Kind::kHeat ? " noextend" : "", "\n");
  if (has_log_marks) text += concat("set ytics nomirror ", log_tics(layout.y, heights), "\n");
  if (!categories.empty()) {
    text += "set xtics nomirror " + std::string(shape.rotated ? "rotate by 30 right" : "norotate") + " (";
    for (size_t i = 0; i < categories.size(); ++i) {
      text += concat(i ? ", " : "", tic_in_quotes(categories[i]), " ", i + 1);
    }
    return text + concat(")\nset xrange [0.4:", categories.size(), ".6]\n");
  }
  if (layout.names_points) return text;  // named_points() says what it spans
  text +=
      concat("set xrange ",
             layout.x.is_log ? log_range(layout.x, values_of(data, panel, true)) : range(layout.x.min, layout.x.max),
             layout.x.is_log ? "" : " noextend", "\n");
  std::set<double> places;
  for (const auto& block : data.blocks) {
    if (block.panel != panel) continue;
    for (const auto& point : block.points) places.insert(point.x);
  }
  const bool whole = std::all_of(places.begin(), places.end(), [](double x) { return x == std::floor(x); });
  if (!layout.x.is_log)
    text += concat("set xtics ", whole && *places.rbegin() - *places.begin() <= 12 ? "1" : "autofreq", "\n");
  if (layout.x.is_log && places.size() <= 10) {
    text += "set xtics (";
    for (const double x : places) text += concat(x == *places.begin() ? "" : ", ", short_number(x));
    text += ")\n";
  }
  return text;
}

// The parts of a plot command that draw one block; `offset` and `width` place it among the series of a category.
std::vector<std::string> drawings(Kind kind, const FigureBlock& block, size_t index, double offset, double width) {
  const auto from = concat("dat index ", index, " using ");
  const auto style = concat(" ls ", block.series + 1), x = concat("($1+", short_number(offset), ")");
  const bool has_interval = std::any_of(block.points.begin(), block.points.end(), [](const auto& point) {
    return point.values.size() == 3 && point.values[1] && point.values[2];
  });
  const auto sides = concat("($1+", short_number(offset - width / 2), "):($1+", short_number(offset + width / 2), ")");
  const std::string interval = ":4:(0):($5-$4) with vectors heads size screen 0.004,90";
  std::vector<std::string> parts;
  switch (kind) {
    case Kind::kHeat:
      return {from + "1:3:4 with image notitle"};
    case Kind::kBox:
      return {concat(from, x, ":4:3:7:6:(", short_number(width), ") with candlesticks whiskerbars 0.5", style,
                     " fs solid 0.35 notitle"),
              concat(from, x, ":5:5:5:5:(", short_number(width), ") with candlesticks lc rgb 'black' lw 2 notitle")};
    case Kind::kStacked:
      return {
          concat(from, "1:3:", sides, ":4:5 with boxxyerror", style, " fs solid 0.85 border lc rgb 'white' notitle")};
    case Kind::kBars:
      parts = {concat(from, x, ":3:", sides, ":(0):3 with boxxyerror", style, " fs solid 0.85 notitle")};
      if (has_interval) parts.push_back(concat(from, x, interval, " lc rgb 'black' lw 1 notitle"));
      return parts;
    case Kind::kScatter:
      parts = {concat(from, "1:3 with points", style, " notitle")};
      break;
    case Kind::kLines:
      parts = {
          concat(from, "1:3 with ", block.points.size() > kMostMarks ? "lines" : "linespoints", style, " notitle")};
  }
  if (has_interval) parts.push_back(concat(from, "1", interval, style, " lw 1 notitle"));
  return parts;
}

// An empty panel as wide as the picture: gnuplot makes a key no wider than the panel it belongs to.
std::string legend(const FigureLayout& layout, const FigureData& data, const FigureShape& shape) {
  auto text = concat(
      "set lmargin at screen 0\nset rmargin at screen 1\nset tmargin at screen 0.5\nset bmargin at screen 0\n"
      "set title ''\nset xlabel ''\nset ylabel ''\nunset border\nunset tics\nunset grid\nunset logscale\n"
      "set xrange [0:1]\nset yrange [0:1]\nset key horizontal reverse Left center bottom maxcols ",
      shape.n_legend_columns, " at screen 0.5,", shape.legend_y, "\nplot NaN notitle");
  const bool filled = layout.kind == Kind::kBars || layout.kind == Kind::kStacked || layout.kind == Kind::kBox;
  const char* look = filled ? "boxes fs solid 0.85" : layout.kind == Kind::kScatter ? "points" : "linespoints";
  for (size_t i = 0; i < data.series.size(); ++i) {
    text += concat(", \\\n  keyentry with ", look, " ls ", i + 1, " title ", in_quotes(data.series[i]));
  }
  return text + "\n";
}

// Room between the outermost marks and the axes; logarithmic axes take none.
std::string offsets(const FigureLayout& layout) {
  if (layout.kind == Kind::kHeat) return "";
  const bool has_marks = layout.kind == Kind::kLines || layout.kind == Kind::kScatter;
  const char* sides = has_marks && !layout.x.is_log ? "graph 0.03, graph 0.03, " : "0, 0, ";
  return concat("set offsets ", sides, layout.y.is_log ? "0, 0" : "graph 0.05, 0", "\n");
}

std::string plot(const FigureLayout& layout, const FigureData& data, size_t panel) {
  std::vector<size_t> here;
  for (size_t i = 0; i < data.blocks.size(); ++i) {
    if (data.blocks[i].panel == panel) here.push_back(i);
  }
  const bool side_by_side = layout.kind == Kind::kBars || layout.kind == Kind::kBox;
  const double n = side_by_side ? static_cast<double>(here.size()) : 1, width = 0.8 / n;
  std::string text = "plot ";
  for (size_t k = 0; k < here.size(); ++k) {
    const double offset = side_by_side ? (static_cast<double>(k) - (n - 1) / 2) * width : 0;
    for (const auto& part : drawings(layout.kind, data.blocks[here[k]], here[k], offset, width * 0.94)) {
      text += (text == "plot " ? "" : ", \\\n  ") + part;
    }
  }
  return text + "\n";
}

std::string heat(const FigureLayout& layout, const FigureData& data) {
  double low = 0, high = 0;
  bool any = false;
  for (const auto& block : data.blocks) {
    for (const auto& point : block.points) {
      const auto value = point.values[1];
      if (!value || (layout.z.is_log && *value <= 0)) continue;
      low = any ? std::min(low, *value) : *value;
      high = any ? std::max(high, *value) : *value;
      any = true;
    }
  }
  return concat("set palette defined (0 '#440154', 1 '#3b528b', 2 '#21918c', 3 '#5ec962', 4 '#fde725')\nset cblabel ",
                in_quotes(axis_title(layout.z)), "\n", layout.z.is_log ? "set logscale cb\n" : "",
                any && low < high ? concat("set cbrange ", range(low, high), "\n") : "");
}

}  // namespace

std::string write_gnuplot(const FigureLayout& layout, const FigureData& data, const std::string& dat,
                          const std::string& picture, const std::string& format) {
  auto shape = figure_shape(layout, data);
  if (shape.names_points && has_crowded_names(layout, data, shape)) shape = figure_shape(layout, data, false);
  const bool is_heat = layout.kind == Kind::kHeat;
  std::string text =
      concat("# Draws ", picture, " from ", dat, ": gnuplot 5.4 or later, in this folder.\n", terminal(shape, format),
             "\nset output ", in_quotes(picture), "\ndat = ", in_quotes(dat),
             "\nset datafile missing '?'\nset border 3\nset tics nomirror out\nset grid ytics back lt 1 lw 1 lc rgb "
             "'#d8d8d8'\n"
             "set xlabel ",
             in_quotes(axis_title(layout.x)), "\n", styles(data, shape.scale * shape.scale),
             layout.x.is_log ? "set logscale x\n" : "", layout.y.is_log ? "set logscale y\n" : "",
             is_heat ? heat(layout, data) : offsets(layout));
  text += concat("set multiplot\nset label 1 ", in_quotes(layout.title), " at screen 0.5,", shape.title_y,
                 " center font ',", short_number(shape.scale * (format == "svg" ? 14 : 12)), "'\n");
  if (!layout.note.empty())
    text += concat("set label 2 ", in_quotes(layout.note), " at screen 0.5,", shape.note_y, " center\n");
  for (size_t panel = 0; panel < data.panels.size(); ++panel) {
    const auto& place = shape.panels[panel];
    text += concat("set lmargin at screen ", place.left, "\nset rmargin at screen ", place.right,
                   "\nset tmargin at screen ", place.top, "\nset bmargin at screen ", place.bottom, "\nset title ",
                   in_quotes(data.panels[panel]), " offset 0,-0.5\n", axes(layout, data, panel, shape));
    text += "unset key\n" + std::string(layout.names_points ? "set offsets 0, 0, 0, 0\n" : "");
    if (layout.names_points) text += named_points(layout, data, panel, shape);
    text += plot(layout, data, panel);
    if (layout.names_points) text += "unset label\nunset arrow\n";
    if (panel == 0) text += "unset label 1\nunset label 2\n";
  }
  return text + (shape.has_legend ? legend(layout, data, shape) : "") + "unset multiplot\n";
}

}  // namespace kvc
