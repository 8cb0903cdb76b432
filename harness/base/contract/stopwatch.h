// Seconds that passed, by a clock that nobody sets; and those of the processors that this process took.
#pragma once

#include <chrono>
#include <ctime>

namespace kvc {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

inline double processor_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

}  // namespace kvc
