// What strangers wrote, or a library says of it, for a message of one line.
#pragma once

#include <string>

#include "text/utf8.h"

namespace kvc {

// With blanks for control characters; of a long text the beginning.
inline std::string one_line(std::string text) {
  constexpr size_t kLongest = 2000;
  if (text.size() > kLongest) {
    text.resize(kLongest);
    text.resize(complete_utf8(text));
    text += "...";
  }
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ' || c == 127) c = ' ';
  }
  return text;
}

}  // namespace kvc
