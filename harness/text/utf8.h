// UTF-8 as text comes in: validation, code points, and values shown inside one-line messages.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace kvc {

// Byte offset of the first byte that is not well-formed UTF-8 (overlong forms and surrogates are not), or nothing.
std::optional<size_t> first_invalid_utf8(std::string_view text);

// Code points of well-formed UTF-8; throws Error naming the byte offset otherwise.
std::u32string to_code_points(std::string_view text);

// Code points of any bytes: each byte that is part of no character counts as U+FFFD.
std::u32string to_code_points_replacing(std::string_view text);

// UTF-8 of code points; throws Error for surrogates and for numbers above U+10FFFF.
std::string to_utf8(std::u32string_view code_points);

// Whitespace as Python's str.isspace(), split() and strip() see it.
bool is_space(char32_t c);

// Without whitespace (Python's str.strip() set) at both ends, or at the end. Bytes that are no character are no space.
std::string strip(std::string_view text);
std::string strip_end(std::string_view text);

// 'text' for a message: one line, control characters and bad bytes escaped, cut after 60 code points.
std::string in_quotes(std::string_view text);

}  // namespace kvc
