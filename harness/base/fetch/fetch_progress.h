// How far a fetch is: a bar with size and time left on a terminal, a line every 30 seconds elsewhere; on standard
// error.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace kvc {

std::string megabytes(int64_t n_bytes);  // "92.9 MB"; of 1e6 bytes, GB from 1e9 on

// "45.2 MB of 92.9 MB, 12 s left": `fetched` of the bytes that are there came within `seconds`.
std::string fetch_state(int64_t have, int64_t total, int64_t fetched, double seconds);

class FetchProgress {
 public:
  FetchProgress(std::string what, int64_t n_total);
  ~FetchProgress();  // wipes the bar

  void at(int64_t n_bytes);  // so many are there

 private:
  using Clock = std::chrono::steady_clock;

  std::string what_;
  int64_t n_total_, n_first_ = -1;  // bytes that an earlier call had brought
  bool terminal_;
  Clock::time_point start_, last_print_;
};

}  // namespace kvc
