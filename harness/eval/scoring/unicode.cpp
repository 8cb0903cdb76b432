#include "scoring/unicode.h"

#include <unicode/locid.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>

#include <algorithm>

#include "text/characters.h"

namespace kvc {
namespace {

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

}  // namespace

bool is_decimal_digit(char32_t c) {
  if (c < 0x80) return c >= '0' && c <= '9';
  return u_charType(static_cast<UChar32>(c)) == U_DECIMAL_DIGIT_NUMBER;
}

bool is_word_char(char32_t c) {
  if (c < 0x80) return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || c == '_';
  const auto code = static_cast<UChar32>(c);
  return (U_GET_GC_MASK(code) & U_GC_L_MASK) != 0 || u_getNumericValue(code) != U_NO_NUMERIC_VALUE;
}

std::string lower(std::string_view text) {
  std::string result;
  if (is_ascii(text)) {
    for (const char c : text) result += c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c;
    return result;
  }
  icu::UnicodeString::fromUTF8(icu::StringPiece(text.data(), static_cast<int32_t>(text.size())))
      .toLower(icu::Locale::getRoot())
      .toUTF8String(result);
  return result;
}

std::vector<std::u32string_view> split_at_space(std::u32string_view text) {
  std::vector<std::u32string_view> words;
  for (size_t begin = 0; begin < text.size();) {
    while (begin < text.size() && is_space(text[begin])) ++begin;
    size_t end = begin;
    while (end < text.size() && !is_space(text[end])) ++end;
    if (end > begin) words.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  return words;
}

}  // namespace kvc
