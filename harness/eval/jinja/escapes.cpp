#include <charconv>

#include "jinja/lexer.h"
#include "kvc/check.h"
#include "text/utf8.h"

namespace kvc::jinja {

std::string unescape(std::string_view literal) {
  std::string text;
  for (size_t i = 0; i < literal.size(); ++i) {
    if (literal[i] != '\\' || i + 1 == literal.size()) {
      text += literal[i];
      continue;
    }
    const char c = literal[++i];
    constexpr std::string_view kNames = "nrtabfv\\'\"", kMeant = "\n\r\t\a\b\f\v\\'\"";
    if (c == '\n') continue;  // a line that goes on
    if (const auto known = kNames.find(c); known != std::string_view::npos) {
      text += kMeant[known];
      continue;
    }
    const bool is_octal = c >= '0' && c <= '7';
    const size_t n_most = is_octal ? 3 : c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    KVC_CHECK(c != 'N', "\\N in a text is not supported");
    if (n_most == 0) {
      text += '\\', text += c;
      continue;
    }
    const auto digits = literal.substr(is_octal ? i : i + 1, n_most);
    uint32_t value = 0;
    const auto end = std::from_chars(digits.data(), digits.data() + digits.size(), value, is_octal ? 8 : 16).ptr;
    const auto n = static_cast<size_t>(end - digits.data());
    KVC_CHECK(is_octal || n == n_most, "\\", c, " in a text has ", n, " hexadecimal digits, expected ", n_most);
    KVC_CHECK(value <= 0x10FFFF && (value < 0xD800 || value > 0xDFFF), "\\", c, digits, " in a text is no character");
    append_utf8(text, value);
    i += n - is_octal;
  }
  return text;
}

}  // namespace kvc::jinja
