#pragma once

#include <ctime>
#include <functional>

namespace kvc::test {

// Of this process alone: others may keep the machine busy.
inline double processor_seconds(const std::function<void()>& action) {
  const auto start = std::clock();
  action();
  return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

}  // namespace kvc::test
