// Scalable Vector Graphics as text. Colours are the classes c0 to c11, which the page's style sheet gives for light and
// dark; lengths are pixels, y grows downwards.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kvc {

// A value's place between two pixels.
struct Scale {
  double low = 0, high = 1;  // values
  double from = 0, to = 1;   // pixels of low and high
  double at(double value) const { return from + (to - from) * (value - low) / (high - low); }
};

// Round values 1, 2 or 5 times a power of ten apart that cover low to high, about `n` of them; low < high or equal.
std::vector<double> round_ticks(double low, double high, int n);

// "12.5", "0.001", "1.2e-05": up to five digits.
std::string short_number(double value);

class Svg {
 public:
  Svg(double width, double height, const std::string& label);

  void open_group(const std::string& attributes);  // as they stand in the tag, already escaped
  void close_group();
  void line(double x1, double y1, double x2, double y2, const std::string& css_class);
  void path(const std::vector<std::pair<double, double>>& points, const std::string& css_class);
  void rect(double x, double y, double width, double height, const std::string& css_class, const std::string& title);
  void text(double x, double y, const std::string& text, const std::string& css_class);
  // One of six shapes, `shape` modulo 6. With a link the mark leads there.
  void mark(int shape, double x, double y, const std::string& css_class, const std::string& title,
            const std::string& link);
  std::string str() const { return text_ + "</svg>"; }

 private:
  std::string text_;
};

// The inside of a mark: shared by charts and their legends.
std::string mark_shape(int shape, double x, double y, double radius);

}  // namespace kvc
