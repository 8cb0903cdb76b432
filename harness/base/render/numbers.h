// Numbers as text.
#pragma once

#include <string>

namespace kvc {

std::string shortest(double value);               // the fewest digits that read back as the same double
std::string rounded(double value, int decimals);  // -1: six significant digits
std::string duration_in_words(double seconds);    // "42 s", "3 min 5 s", "2 h 10 min"

}  // namespace kvc
