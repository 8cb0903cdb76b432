// How far a run is: a bar with the time left on a terminal, a line every 30 seconds elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace kvc {

class Progress {
 public:
  explicit Progress(int64_t n_total);
  ~Progress();  // wipes the bar

  void advance(const std::string& now_at);
  // Wipes the bar, so that a message can be written; the next advance() draws it again.
  void make_room();

 private:
  using Clock = std::chrono::steady_clock;
  std::string time_left() const;

  int64_t n_total_, n_done_ = 0;
  bool terminal_;
  Clock::time_point start_, last_print_;
};

}  // namespace kvc
