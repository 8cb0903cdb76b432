#include "text/utf8.h"

#include <unicode/utf8.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "kvc/check.h"
#include "text/characters.h"

namespace kvc {
namespace {

// The first place from `at` on that may not be ASCII, eight bytes at a time.
size_t skip_ascii(std::string_view text, size_t at) {
  for (uint64_t eight = 0; at + 8 <= text.size(); at += 8) {
    std::memcpy(&eight, text.data() + at, 8);
    if (eight & 0x8080808080808080u) break;
  }
  while (at < text.size() && U8_IS_SINGLE(text[at])) ++at;
  return at;
}

std::string hexadecimal(char byte, const char* digits) {
  const auto value = static_cast<unsigned char>(byte);
  return {digits[value >> 4], digits[value & 15]};
}

std::string_view without_space_at_end(std::string_view text) {
  while (!text.empty()) {
    const size_t start = previous_code_point(text, text.size());
    const auto last = next_or_byte(text, start);
    if (start + last.n_bytes != text.size() || !is_space(last.value)) break;
    text.remove_suffix(last.n_bytes);
  }
  return text;
}

}  // namespace

CodePoint next_code_point(std::string_view text, size_t at) {
  size_t end = at;
  UChar32 c = 0;
  U8_NEXT(text.data(), end, text.size(), c);
  return {c < 0 ? U'\uFFFD' : static_cast<char32_t>(c), end - at, c >= 0};
}

CodePoint next_or_byte(std::string_view text, size_t at) {
  auto point = next_code_point(text, at);
  if (!point.is_valid) point.n_bytes = 1;
  return point;
}

size_t previous_code_point(std::string_view text, size_t end) {
  size_t begin = end - 1;
  while (begin > 0 && U8_IS_TRAIL(text[begin])) --begin;
  return begin;
}

size_t n_code_points(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char byte) { return !U8_IS_TRAIL(byte); }));
}

void append_utf8(std::string& text, char32_t c) {
  char bytes[U8_MAX_LENGTH];
  size_t n = 0;
  U8_APPEND_UNSAFE(bytes, n, c);
  text.append(bytes, n);
}

std::optional<size_t> first_invalid_utf8(std::string_view text) {
  for (size_t at = 0; (at = skip_ascii(text, at)) < text.size();) {
    const auto point = next_code_point(text, at);
    if (!point.is_valid) return at;
    at += point.n_bytes;
  }
  return std::nullopt;
}

bool is_utf8(std::string_view text) { return !first_invalid_utf8(text); }

void check_utf8(std::string_view text, std::string_view what) {
  const auto bad = first_invalid_utf8(text);
  KVC_CHECK(!bad, what, ": byte ", *bad, " (0x", hexadecimal(text[*bad], "0123456789ABCDEF"), ") is not valid UTF-8");
}

size_t complete_utf8(std::string_view bytes) {
  auto n = static_cast<int64_t>(bytes.size());
  U8_TRUNCATE_IF_INCOMPLETE(bytes, 0, n);
  return static_cast<size_t>(n);
}

std::string replace_broken_utf8(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  for (size_t at = 0; at < bytes.size();) {
    const auto point = next_code_point(bytes, at);
    append_utf8(text, point.value);
    at += point.n_bytes;
  }
  return text;
}

std::u32string to_code_points(std::string_view text) {
  const auto bad = first_invalid_utf8(text);
  KVC_CHECK(!bad, "not well-formed UTF-8 at byte ", *bad);
  return to_code_points_replacing(text);
}

std::u32string to_code_points_replacing(std::string_view text) {
  std::u32string code_points;
  for (size_t at = 0; at < text.size();) {
    const auto point = next_or_byte(text, at);
    code_points += point.value;
    at += point.n_bytes;
  }
  return code_points;
}

std::string to_utf8(std::u32string_view code_points) {
  std::string text;
  for (const char32_t c : code_points) {
    KVC_CHECK(c <= 0x10FFFF && !U_IS_SURROGATE(c), "code point ", static_cast<uint32_t>(c), " is not Unicode text");
    append_utf8(text, c);
  }
  return text;
}

std::string strip(std::string_view text) {
  text = without_space_at_end(text);
  while (!text.empty()) {
    const auto first = next_or_byte(text, 0);
    if (!is_space(first.value)) break;
    text.remove_prefix(first.n_bytes);
  }
  return std::string(text);
}

std::string strip_end(std::string_view text) { return std::string(without_space_at_end(text)); }

bool has_control(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](unsigned char c) { return c < ' ' || c == 127; });
}

std::string line_and_column(std::string_view text, size_t at, int64_t line, int64_t column) {
  const auto before = text.substr(0, at);
  const auto line_feed = before.rfind('\n');
  if (line_feed != std::string_view::npos) {
    line += std::count(before.begin(), before.end(), '\n');
    column = 1 + static_cast<int64_t>(before.size() - line_feed - 1);
  } else {
    column += static_cast<int64_t>(before.size());
  }
  return concat(line, ":", column);
}

std::string in_quotes(std::string_view text, int most) {
  std::string out = "'";
  int n_shown = 0;
  for (size_t at = 0; at < text.size();) {
    if (n_shown++ == most) {
      out += "...";
      break;
    }
    const auto point = next_or_byte(text, at);
    if (text[at] == '\n') {
      out += "\\n";
    } else if (text[at] == '\t') {
      out += "\\t";
    } else if (text[at] == '\r') {
      out += "\\r";
    } else if (!point.is_valid || point.value < 0x20 || point.value == 0x7F) {
      out += "\\x" + hexadecimal(text[at], "0123456789abcdef");
    } else {
      out.append(text, at, point.n_bytes);
    }
    at += point.n_bytes;
  }
  return out + "'";
}

}  // namespace kvc
