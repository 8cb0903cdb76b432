// How far a run is: a bar with the time left on a terminal, a line every 30 seconds elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace kvc {

class Progress {
 public:
  // unit: what is counted, "samples". line_interval: between two lines where there is no terminal.
  explicit Progress(int64_t n_total, std::string unit = "samples",
                    std::chrono::milliseconds line_interval = std::chrono::seconds(30));
  ~Progress();  // wipes the bar

  void advance(const std::string& now_at) { reach(n_done_ + 1, now_at); }
  // So many are done; told as advance() tells it. Of a long step it is called again and again with the same number.
  void reach(int64_t n_done, const std::string& now_at);
  // Wipes the bar, so that a message can be written; the next advance() draws it again.
  void make_room();

 private:
  using Clock = std::chrono::steady_clock;
  std::string times() const;
  void draw_bar(const std::string& now_at) const;

  int64_t n_total_, n_done_ = 0;
  std::string unit_;
  std::chrono::milliseconds line_interval_;
  bool terminal_;
  Clock::time_point start_, last_print_;
};

}  // namespace kvc
