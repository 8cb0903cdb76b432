// How far something long is: a bar with the time left on a terminal, a line every 30 seconds elsewhere; on standard
// error.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace kvc {

struct ProgressState {
  int64_t n_done = 0, n_total = 0;
  std::string unit;                         // what is counted, "samples"
  double share = -1;                        // of the work, 0 to 1; -1: of what is counted
  std::optional<double> seconds_left = {};  // as far as is known
  double tokens_per_second = 0;             // 0: not told
  std::string doing = {};                   // "prefill 31 of 120"
};

// "23/96 samples, 3 min 5 s so far, 8 min 20 s left, 182 tokens/s, at prefill 31 of 120"
std::string progress_text(const ProgressState& state, double seconds_so_far);
// The same behind a bar: the line that a terminal of so many columns has room for.
std::string progress_bar(const ProgressState& state, double seconds_so_far, size_t n_columns);

// The seconds that are left of an estimate; where none are and the work goes on, none, and `doing` says so.
std::optional<double> left_of_estimate(double seconds, bool is_done, std::string& doing);

// Seconds that are left where what is counted takes the same time each; nothing before the first.
std::optional<double> left_by_count(int64_t n_done, int64_t n_total, double seconds_so_far);

class Progress {
 public:
  // line_interval: between two lines where there is no terminal.
  explicit Progress(std::chrono::milliseconds line_interval = std::chrono::seconds(30));
  ~Progress();  // wipes the bar

  // Prints where it is time to. Of a long step it is called again and again.
  void show(const ProgressState& state);
  // Wipes the bar, so that a message can be written; the next show() draws it again.
  void make_room();
  double seconds_so_far() const;

 private:
  using Clock = std::chrono::steady_clock;

  std::chrono::milliseconds line_interval_;
  bool terminal_;
  Clock::time_point start_, last_print_;
  int64_t n_shown_ = 0;  // done, as last shown
};

}  // namespace kvc
