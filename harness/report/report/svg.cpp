#include "report/svg.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "kvc/check.h"
#include "render/escape.h"

namespace kvc {
namespace {

std::string pixels(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.1f", value);
  return text;
}

std::string polygon(const std::vector<std::pair<double, double>>& points) {
  std::string text = "<polygon points=\"";
  for (const auto& [x, y] : points) text += pixels(x) + "," + pixels(y) + " ";
  text.back() = '"';
  return text + "/>";
}

std::string title_of(const std::string& title) {
  return title.empty() ? "" : "<title>" + escape_html(title) + "</title>";
}

}  // namespace

std::vector<double> round_ticks(double low, double high, int n) {
  const double span = high > low ? high - low : std::max(1.0, std::abs(low));
  const double rough = span / std::max(1, n), power = std::pow(10, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double factor : {5.0, 2.0, 1.0}) {
    if (factor * power >= rough * 0.999) step = factor * power;
  }
  std::vector<double> ticks;
  const auto first = static_cast<int64_t>(std::floor(low / step + 1e-9));
  const auto last = static_cast<int64_t>(std::ceil(std::max(high, low + span * 1e-9) / step - 1e-9));
  for (auto i = first; i <= last; ++i) ticks.push_back(static_cast<double>(i) * step);
  return ticks;
}

std::string short_number(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.5g", value == 0 ? 0.0 : value);
  return text;
}

Svg::Svg(double width, double height, const std::string& label)
    : text_(concat("<svg viewBox=\"0 0 ", pixels(width), " ", pixels(height), "\" width=\"", pixels(width),
                   "\" role=\"img\" aria-label=\"", escape_html(label), "\">")) {}

void Svg::open_group(const std::string& attributes) { text_ += "<g " + attributes + ">"; }
void Svg::close_group() { text_ += "</g>"; }

void Svg::line(double x1, double y1, double x2, double y2, const std::string& css_class) {
  text_ += concat("<line x1=\"", pixels(x1), "\" y1=\"", pixels(y1), "\" x2=\"", pixels(x2), "\" y2=\"", pixels(y2),
                  "\" class=\"", css_class, "\"/>");
}

void Svg::path(const std::vector<std::pair<double, double>>& points, const std::string& css_class) {
  text_ += "<polyline points=\"";
  for (const auto& [x, y] : points) text_ += pixels(x) + "," + pixels(y) + " ";
  text_ += concat("\" class=\"", css_class, "\"/>");
}

void Svg::rect(double x, double y, double width, double height, const std::string& css_class,
               const std::string& title) {
  text_ += concat("<rect x=\"", pixels(x), "\" y=\"", pixels(y), "\" width=\"", pixels(width), "\" height=\"",
                  pixels(height), "\" class=\"", css_class, "\">", title_of(title), "</rect>");
}

void Svg::text(double x, double y, const std::string& text, const std::string& css_class) {
  text_ += concat("<text x=\"", pixels(x), "\" y=\"", pixels(y), "\" class=\"", css_class, "\">", escape_html(text),
                  "</text>");
}

std::string mark_shape(int shape, double x, double y, double r) {
  const double t = 1.2 * r;
  switch (shape % 6) {
    case 0:
      return concat("<circle cx=\"", pixels(x), "\" cy=\"", pixels(y), "\" r=\"", pixels(r), "\"/>");
    case 1:
      return polygon({{x - r, y - r}, {x + r, y - r}, {x + r, y + r}, {x - r, y + r}});
    case 2:
      return polygon({{x, y - t}, {x + t, y + r}, {x - t, y + r}});
    case 3:
      return polygon({{x, y - t}, {x + t, y}, {x, y + t}, {x - t, y}});
    case 4:
      return polygon({{x, y + t}, {x + t, y - r}, {x - t, y - r}});
    default:
      return polygon(
          {{x - t, y}, {x - r / 2, y - t}, {x + r / 2, y - t}, {x + t, y}, {x + r / 2, y + t}, {x - r / 2, y + t}});
  }
}

void Svg::mark(int shape, double x, double y, const std::string& css_class, const std::string& title,
               const std::string& link) {
  if (!link.empty()) text_ += concat("<a href=\"", escape_html(link), "\">");
  text_ += concat("<g class=\"", css_class, "\">", title_of(title), mark_shape(shape, x, y, 4.5), "</g>");
  if (!link.empty()) text_ += "</a>";
}

}  // namespace kvc
