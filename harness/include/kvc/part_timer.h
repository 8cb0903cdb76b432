// Seconds of a compressor's work by part. Off, at the cost of one look at a pointer, unless a bench listens.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "kvc/check.h"

namespace kvc {

// Codes, low-rank factors, single entries: making them, reading them back and attending to them.
enum class WorkPart : uint8_t { quantize, low_rank, sparse };
inline constexpr std::array kWorkParts = {WorkPart::quantize, WorkPart::low_rank, WorkPart::sparse};
KVC_EXPORT const char* to_string(WorkPart part);

// Hears of the parts worked on by the thread that made it, while it lives. One a thread.
class KVC_EXPORT PartTimer {
 public:
  PartTimer();
  ~PartTimer();
  PartTimer(const PartTimer&) = delete;
  PartTimer& operator=(const PartTimer&) = delete;

  double seconds(WorkPart part) const { return seconds_[static_cast<size_t>(part)]; }  // since the last reset
  void reset() { seconds_ = {}; }

 private:
  friend class TimedPart;
  using Clock = std::chrono::steady_clock;
  static constexpr int kNone = -1;

  int switch_to(int part);  // -> the part before

  std::array<double, kWorkParts.size()> seconds_ = {};
  int part_ = kNone;
  Clock::time_point since_;
};

// While it lives the thread works on that part. Inside another part the time is the inner one's alone, so parts add up
// to no more than the whole.
class KVC_EXPORT TimedPart {
 public:
  explicit TimedPart(WorkPart part);
  ~TimedPart();
  TimedPart(const TimedPart&) = delete;
  TimedPart& operator=(const TimedPart&) = delete;

 private:
  PartTimer* timer_;  // null: nobody listens
  int before_ = PartTimer::kNone;
};

}  // namespace kvc
