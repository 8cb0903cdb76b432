#include "render/escape.h"

#include <charconv>

namespace kvc {

std::string escape_html(std::string_view text) {
  std::string escaped;
  escaped.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t' && c != '\r') {
          escaped += "\xEF\xBF\xBD";
        } else {
          escaped += c;
        }
    }
  }
  return escaped;
}

std::string escape_markdown(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '|' || c == '\\') escaped += '\\';
    escaped += c == '\n' || c == '\r' ? ' ' : c;
  }
  return escaped;
}

namespace {

// A spreadsheet computes a cell that begins so, and what a model generated would run there.
bool is_formula(const std::string& text) {
  if (text.empty() || std::string_view("=+-@\t\r").find(text.front()) == std::string_view::npos) return false;
  const size_t start = text.front() == '+' ? 1 : 0;  // a number is none
  double number;
  const auto [end, error] = std::from_chars(text.data() + start, text.data() + text.size(), number);
  return error != std::errc() || end != text.data() + text.size();
}

}  // namespace

std::string escape_csv(const std::string& given) {
  const auto text = is_formula(given) ? "'" + given : given;
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string escaped = "\"";
  for (const char c : text) {
    if (c == '"') escaped += '"';
    escaped += c;
  }
  return escaped + "\"";
}

}  // namespace kvc
