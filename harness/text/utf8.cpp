#include "text/utf8.h"

#include "kvc/check.h"

namespace kvc {
namespace {

constexpr char32_t kBad = 0xFFFFFFFF;

bool is_scalar(char32_t c) { return c <= 0x10FFFF && !(c >= 0xD800 && c <= 0xDFFF); }

// The code point that starts at text[i], and its length in bytes; kBad and 1 where the bytes are not well-formed.
char32_t decode(std::string_view text, size_t i, size_t& length) {
  const auto byte = [&](size_t k) { return static_cast<unsigned char>(text[k]); };
  length = 1;
  const unsigned char lead = byte(i);
  if (lead < 0x80) return lead;
  const size_t n = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || i + n > text.size()) return kBad;
  char32_t c = lead & (0xFF >> (n + 1));
  for (size_t k = 1; k < n; ++k) {
    if ((byte(i + k) & 0xC0) != 0x80) return kBad;
    c = (c << 6) | (byte(i + k) & 0x3F);
  }
  const char32_t smallest = n == 2 ? 0x80 : n == 3 ? 0x800 : 0x10000;
  if (c < smallest || !is_scalar(c)) return kBad;
  length = n;
  return c;
}

void append_utf8(std::string& out, char32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c);
    return;
  }
  const int n_more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
  static constexpr int kLead[] = {0, 0xC0, 0xE0, 0xF0};
  out += static_cast<char>(kLead[n_more] | (c >> (6 * n_more)));
  for (int k = n_more - 1; k >= 0; --k) out += static_cast<char>(0x80 | ((c >> (6 * k)) & 0x3F));
}

void append_escaped(std::string& out, unsigned int value) {
  static constexpr char kDigits[] = "0123456789abcdef";
  out += "\\x";
  out += kDigits[(value >> 4) & 15];
  out += kDigits[value & 15];
}

std::string_view without_space_at_end(std::string_view text) {
  while (!text.empty()) {
    size_t start = text.size() - 1, length = 1;  // of the last character, or of a byte that is part of none
    while (start > 0 && start + 4 > text.size() && (text[start] & 0xC0) == 0x80) --start;
    const char32_t c = decode(text, start, length);
    if (start + length != text.size() || !is_space(c)) break;
    text.remove_suffix(length);
  }
  return text;
}

}  // namespace

bool is_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

std::optional<size_t> first_invalid_utf8(std::string_view text) {
  size_t length = 1;
  for (size_t i = 0; i < text.size(); i += length) {
    length = 1;
    if (static_cast<unsigned char>(text[i]) >= 0x80 && decode(text, i, length) == kBad) return i;
  }
  return std::nullopt;
}

std::u32string to_code_points(std::string_view text) {
  std::u32string code_points;
  size_t length = 1;
  for (size_t i = 0; i < text.size(); i += length) {
    const char32_t c = decode(text, i, length);
    KVC_CHECK(c != kBad, "not well-formed UTF-8 at byte ", i);
    code_points += c;
  }
  return code_points;
}

std::u32string to_code_points_replacing(std::string_view text) {
  std::u32string code_points;
  size_t length = 1;
  for (size_t i = 0; i < text.size(); i += length) {
    const char32_t c = decode(text, i, length);
    code_points += c == kBad ? U'\uFFFD' : c;
  }
  return code_points;
}

std::string to_utf8(std::u32string_view code_points) {
  std::string text;
  for (const char32_t c : code_points) {
    KVC_CHECK(is_scalar(c), "code point ", static_cast<uint32_t>(c), " is not Unicode text");
    append_utf8(text, c);
  }
  return text;
}

std::string strip(std::string_view text) {
  text = without_space_at_end(text);
  size_t length = 1;
  while (!text.empty() && is_space(decode(text, 0, length))) text.remove_prefix(length);
  return std::string(text);
}

std::string strip_end(std::string_view text) { return std::string(without_space_at_end(text)); }

std::string in_quotes(std::string_view text) {
  static constexpr int kMaxShown = 60;
  std::string out = "'";
  size_t length = 1;
  int n_shown = 0;
  for (size_t i = 0; i < text.size(); i += length) {
    if (n_shown++ == kMaxShown) {
      out += "...";
      break;
    }
    const char32_t c = decode(text, i, length);
    if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == kBad || c < 0x20 || c == 0x7F) {
      append_escaped(out, static_cast<unsigned char>(text[i]));
    } else {
      out.append(text, i, length);
    }
  }
  return out + "'";
}

}  // namespace kvc
