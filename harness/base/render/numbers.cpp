#include "render/numbers.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "kvc/check.h"

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

std::string duration_in_words(double seconds) {
  const auto whole = static_cast<int64_t>(std::max(0.0, seconds));
  if (whole < 60) return concat(whole, " s");
  if (whole < 3600) return concat(whole / 60, " min ", whole % 60, " s");
  return concat(whole / 3600, " h ", whole % 3600 / 60, " min");
}

double to_digits(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*g", digits, value);
  return std::strtod(text, nullptr);
}

}  // namespace kvc
