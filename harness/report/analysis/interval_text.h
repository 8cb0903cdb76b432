// A value with its interval, as tables print it.
#pragma once

#include <optional>
#include <string>

#include "kvc/check.h"
#include "stats/interval.h"

namespace kvc {

// "92.0 [85.0, 95.9]", or the value alone where there is no interval; number(x): the text of a number.
template <class Number>
std::string with_interval(double value, const std::optional<Interval>& interval, Number number) {
  if (!interval) return number(value);
  return concat(number(value), " [", number(interval->low), ", ", number(interval->high), "]");
}

}  // namespace kvc
