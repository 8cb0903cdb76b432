// What is told of an error: one line, in plain words, of a length that can be read.
#pragma once

#include <exception>
#include <string>
#include <string_view>

namespace kvc {

// The first line, without control characters; of one over 4,000 bytes the beginning.
std::string one_line(std::string_view text);

// What strangers wrote, as a part of such a line: with blanks for line breaks as well; of over 2,000 bytes the
// beginning.
std::string in_one_line(std::string_view text);

inline constexpr const char* kOutOfMemory = "out of memory";

// What an exception says, in our words where a library's are none: memory that is not to be had, files, JSON.
std::string said_by(const std::exception& error);

}  // namespace kvc
