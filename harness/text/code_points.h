// UTF-8, code point by code point.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kvc {

struct CodePoint {
  char32_t value = 0;   // U+FFFD where the bytes are not UTF-8
  int64_t n_bytes = 0;  // bytes it takes; of broken input, the longest start of a character (Unicode 3.9, table 3-8)
  bool is_valid = false;
};

// The code point at text[at]; at < text.size().
CodePoint next_code_point(std::string_view text, size_t at);

void append_utf8(std::string& text, char32_t code_point);

// Throws Error "<what>: byte N (0xXX) is not valid UTF-8".
void check_utf8(std::string_view text, std::string_view what);
bool is_utf8(std::string_view text);

// Bytes before the character that is cut short at the end of the text; all of them where none is.
size_t complete_utf8(std::string_view bytes);

// The text with U+FFFD for each broken part.
std::string replace_broken_utf8(std::string_view bytes);

// Unicode properties. is_word is \w of regular expressions: letters, marks, digits, connectors, joiners.
bool is_white_space(char32_t c);
bool is_word(char32_t c);
bool is_numeric(char32_t c);
bool is_punctuation(char32_t c);  // and the ASCII symbols $+<=>^`|~

}  // namespace kvc
