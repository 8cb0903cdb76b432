// Where the first of several texts begins in another.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace kvc {

// npos where none of `parts` is in it.
inline size_t find_any(std::string_view text, const std::vector<std::string>& parts) {
  size_t first = std::string_view::npos;
  for (const auto& part : parts) first = std::min(first, text.find(part));
  return first;
}

}  // namespace kvc
