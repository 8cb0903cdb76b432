#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace kvc {

// How many elements the two begin with alike.
template <class T>
size_t common_prefix(const std::vector<T>& a, const std::vector<T>& b) {
  return static_cast<size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
}

}  // namespace kvc
