// Numbers as text.
#pragma once

#include <string>

namespace kvc {

std::string shortest(double value);               // the fewest digits that read back as the same double
std::string rounded(double value, int decimals);  // -1: six significant digits

}  // namespace kvc
