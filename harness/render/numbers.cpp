#include "render/numbers.h"

#include <charconv>
#include <cstdio>

namespace kvc {

std::string shortest(double value) {
  char buffer[32];
  return {buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr};
}

std::string rounded(double value, int decimals) {
  char buffer[400];
  const int n = decimals < 0 ? std::snprintf(buffer, sizeof buffer, "%.6g", value)
                             : std::snprintf(buffer, sizeof buffer, "%.*f", decimals, value);
  return {buffer, static_cast<size_t>(n)};
}

}  // namespace kvc
