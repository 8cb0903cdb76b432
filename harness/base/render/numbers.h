// Numbers as text.
#pragma once

#include <string>

namespace kvc {

std::string shortest(double value);               // the fewest digits that read back as the same double
std::string rounded(double value, int decimals);  // -1: six significant digits
std::string duration_in_words(double seconds);    // "42 s", "3 min 5 s", "2 h 10 min"

// To that many significant digits: 0.0123 of 0.012345 and 3.
double to_digits(double value, int digits);

}  // namespace kvc
