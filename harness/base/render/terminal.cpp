#include "render/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "kvc/check.h"
#include "render/numbers.h"
#include "text/nearest.h"
#include "text/utf8.h"

namespace kvc {
namespace {

constexpr size_t kUsualWidth = 80;  // of a terminal that does not say
constexpr size_t kShortestText = 16, kLongestText = 34;
constexpr size_t kBetween = 2;

std::string without_controls(const std::string& text) {  // a name must not move the cursor
  std::string out;
  for (const char c : text) out += static_cast<unsigned char>(c) < ' ' || c == 127 ? ' ' : c;
  return out;
}

std::string cut(const std::string& text, size_t most) {
  if (n_code_points(text) <= most) return text;
  size_t at = 0;
  for (size_t n = 0; n + 1 < most; ++n) at += next_code_point(text, at).n_bytes;
  return text.substr(0, at) + "…";
}

std::string cell_text(const TableCell& cell, int decimals) {
  if (const auto* number = std::get_if<int64_t>(&cell)) return concat(*number);
  if (const auto* real = std::get_if<double>(&cell)) return rounded(*real, decimals);
  if (const auto* text = std::get_if<std::string>(&cell)) return without_controls(*text);
  return "";
}

std::string heading_text(const TableColumn& column) {
  return without_controls(column.unit.empty() ? column.name : concat(column.name, " [", column.unit, "]"));
}

struct ShownText {
  size_t column;
  size_t width, whole_width;       // longer texts are cut
  std::vector<std::string> lines;  // the heading, then the rows

  bool is_empty() const {
    return std::all_of(lines.begin() + 1, lines.end(), [](auto& text) { return text.empty(); });
  }
};

ShownText text_of(const Table& table, size_t i, size_t longest) {
  ShownText shown{i, 0, 0, {heading_text(table.columns[i])}};
  for (const auto& row : table.rows) shown.lines.push_back(cell_text(row[i], table.columns[i].decimals));
  for (const auto& line : shown.lines) shown.whole_width = std::max(shown.whole_width, n_code_points(line));
  const bool is_text = table.columns[i].align == TableColumn::Align::kLeft;
  shown.width = is_text ? std::min(shown.whole_width, longest) : shown.whole_width;
  return shown;
}

// The first column, the main ones as far as they fit, then the others; what is left of the width goes to texts that
// would be cut.
std::vector<ShownText> chosen(const Table& table, size_t width, std::vector<std::string>& left_out) {
  using Rank = TableColumn::Rank;
  const size_t longest = std::clamp<size_t>(width * 3 / 10, kShortestText, kLongestText);
  std::vector<ShownText> shown;
  size_t used = 0;
  for (const auto rank : {Rank::kMain, Rank::kUsual}) {
    for (size_t i = 0; i < table.columns.size(); ++i) {
      const bool first = i == 0, its_turn = (first ? Rank::kMain : table.columns[i].rank) == rank;
      if (!its_turn) continue;
      auto column = text_of(table, i, longest);
      const size_t needed = column.width + (first ? 0 : kBetween);
      if (!first && (column.is_empty() || used + needed > width)) continue;
      used += needed;
      shown.push_back(std::move(column));
    }
  }
  std::ranges::sort(shown, {}, &ShownText::column);
  for (auto& column : shown) {
    const size_t more = std::min(column.whole_width - column.width, width - std::min(width, used));
    column.width += more, used += more;
  }
  for (size_t i = 0, at = 0; i < table.columns.size(); ++i) {
    if (at < shown.size() && shown[at].column == i) {
      ++at;
    } else {
      left_out.push_back(table.columns[i].name);
    }
  }
  return shown;
}

std::string_view sign_of(TableTone tone) {
  return tone == TableTone::kBad ? "\x1b[31m" : tone == TableTone::kGood ? "\x1b[32m" : "\x1b[33m";
}

std::string aligned(const std::string& text, size_t width, bool right) {
  const std::string space(width - std::min(width, n_code_points(text)), ' ');
  return right ? space + text : text + space;
}

std::string line_of(const Table& table, const std::vector<ShownText>& shown, size_t i_line, bool colour) {
  std::string line;
  for (const auto& column : shown) {
    const bool right = table.columns[column.column].align == TableColumn::Align::kRight;
    const auto text = aligned(cut(column.lines[i_line], column.width), column.width, right);
    std::string_view sign = i_line == 0 ? "\x1b[1m" : "";
    if (const auto found = table.tones.find({i_line - 1, column.column}); i_line > 0 && found != table.tones.end()) {
      sign = sign_of(found->second);
    }
    line += (line.empty() ? "" : std::string(kBetween, ' '));
    line += colour && !sign.empty() ? concat(sign, text, "\x1b[0m") : text;
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

std::string wrapped(const std::string& text, size_t width) {
  std::string out, line;
  for (size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find(' ', at), text.size());
    const auto word = text.substr(at, end - at);
    if (!line.empty() && n_code_points(line) + 1 + n_code_points(word) > width) {
      out += line + "\n";
      line = " ";
    }
    line += (line.empty() ? "" : " ") + word;
    at = end + 1;
  }
  return out + line + "\n";
}

}  // namespace

Terminal standard_output() {
  if (::isatty(STDOUT_FILENO) == 0) return {};
  winsize size{};
  const bool told = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  const char *no_colour = std::getenv("NO_COLOR"), *kind = std::getenv("TERM");
  const bool dumb = kind == nullptr || std::string_view(kind) == "dumb";
  return {told ? size.ws_col : kUsualWidth, (no_colour == nullptr || *no_colour == '\0') && !dumb};
}

std::string write_terminal(const Table& table, const Terminal& terminal) {
  std::vector<std::string> left_out;
  const auto shown = chosen(table, terminal.width, left_out);
  std::string text;
  if (!table.title.empty()) text += wrapped(without_controls(table.title), terminal.width) + "\n";
  for (size_t i = 0; i <= table.rows.size(); ++i) text += line_of(table, shown, i, terminal.colour);
  if (!left_out.empty()) text += "\n" + wrapped("--wide also shows: " + join(left_out), terminal.width);
  for (size_t i = 0; i < table.notes.size(); ++i) {
    text += (i || !left_out.empty() ? "" : "\n") + wrapped("- " + without_controls(table.notes[i]), terminal.width);
  }
  return text;
}

std::string write_shown(const Table& table, const std::string& format, bool wide) {
  const auto terminal = standard_output();
  if (wide || terminal.width == 0 || format != "markdown") return write_table(table, format);
  return write_terminal(table, terminal);
}

std::string text_plot(const std::vector<PlotPoint>& points, const std::string& x_name, const std::string& y_name,
                      size_t width) {
  constexpr size_t kHeight = 12, kLeft = 7;
  constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  if (points.size() < 2 || points.size() > kLetters.size() || width < 40) return "";
  const size_t columns = std::min<size_t>(width, 90) - kLeft - 2;
  const auto by_y = std::minmax_element(points.begin(), points.end(), [](auto& a, auto& b) { return a.y < b.y; });
  double low = by_y.first->y, high = by_y.second->y, right = 0;
  if (high - low < 1) low -= 1, high += 1;
  for (const auto& point : points) right = std::max(right, point.x);
  if (right <= 0) return "";
  std::vector<std::string> rows(kHeight, std::string(columns, ' '));
  for (size_t i = 0; i < points.size(); ++i) {
    const auto x = static_cast<size_t>(points[i].x / right * static_cast<double>(columns - 1));
    const auto y = static_cast<size_t>((high - points[i].y) / (high - low) * (kHeight - 1) + 0.5);
    auto& place = rows[y][x];
    place = place == ' ' ? kLetters[i] : '*';
  }
  std::string text = y_name + "\n";
  for (size_t i = 0; i < kHeight; ++i) {
    const auto label = i == 0 ? rounded(high, 1) : i == kHeight - 1 ? rounded(low, 1) : "";
    text += aligned(label, kLeft - 1, true) + " |" + rows[i];
    text.erase(text.find_last_not_of(' ') + 1);
    text += "\n";
  }
  const auto end = rounded(right, 1);
  text += std::string(kLeft, ' ') + "+" + std::string(columns, '-') + "\n" + std::string(kLeft, ' ') + "0" +
          aligned(end, columns, true) + "\n" + aligned(x_name, kLeft + columns + 1, true) + "\n";
  bool several = false;
  for (const auto& row : rows) several |= row.find('*') != std::string::npos;
  for (size_t i = 0; i < points.size(); ++i) {
    text += wrapped(concat(kLetters.substr(i, 1), "  ", rounded(points[i].y, 1), " at ", rounded(points[i].x, 1), "  ",
                           without_controls(points[i].name)),
                    width);
  }
  return text + (several ? "*  several overlap\n" : "");
}

}  // namespace kvc
