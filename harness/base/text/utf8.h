// UTF-8: code point by code point, validation, and values shown inside one-line messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kvc {

struct CodePoint {
  char32_t value = 0;  // U+FFFD where the bytes are not UTF-8
  size_t n_bytes = 0;  // bytes it takes; of broken input, the longest start of a character (Unicode 3.9, table 3-8)
  bool is_valid = false;
};

// The code point at text[at]; at < text.size().
CodePoint next_code_point(std::string_view text, size_t at);
// The same, but each byte that is part of no character is taken by itself.
CodePoint next_or_byte(std::string_view text, size_t at);

// Where the character that ends before text[end] begins; end > 0, text well-formed.
size_t previous_code_point(std::string_view text, size_t end);

size_t n_code_points(std::string_view text);

void append_utf8(std::string& text, char32_t code_point);

// Byte offset of the first byte that is not well-formed UTF-8 (overlong forms and surrogates are not), or nothing.
std::optional<size_t> first_invalid_utf8(std::string_view text);
bool is_utf8(std::string_view text);

// Throws Error "<what>: byte N (0xXX) is not valid UTF-8".
void check_utf8(std::string_view text, std::string_view what);

// Bytes before the character that is cut short at the end of the text; all of them where none is.
size_t complete_utf8(std::string_view bytes);

// The text with U+FFFD for each broken part.
std::string replace_broken_utf8(std::string_view bytes);

// Code points of well-formed UTF-8; throws Error naming the byte offset otherwise.
std::u32string to_code_points(std::string_view text);

// Code points of any bytes: each byte that is part of no character counts as U+FFFD.
std::u32string to_code_points_replacing(std::string_view text);

// UTF-8 of code points; throws Error for surrogates and for numbers above U+10FFFF.
std::string to_utf8(std::u32string_view code_points);

// Without whitespace (Python's str.strip() set) at both ends, or at the end. Bytes that are no character are no space.
std::string strip(std::string_view text);
std::string strip_end(std::string_view text);

// Whether it holds one of ASCII's control characters, as a line break.
bool has_control(std::string_view text);

// "line:column" of text[at], both from 1 and in bytes, for messages; line and column: those of text[0].
std::string line_and_column(std::string_view text, size_t at, int64_t line = 1, int64_t column = 1);

// 'text' for a message: one line, control characters and bad bytes escaped, cut after `most` code points.
std::string in_quotes(std::string_view text, int most = 60);

}  // namespace kvc
