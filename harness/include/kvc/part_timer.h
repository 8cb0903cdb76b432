// Time of a compressor's work by part. Costs one pointer check unless a bench measures.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "kvc/check.h"

namespace kvc {

// Work on codes, low-rank factors or sparse entries: encoding, decoding and attention.
enum class WorkPart : uint8_t { quantize, low_rank, sparse };
inline constexpr std::array kWorkParts = {WorkPart::quantize, WorkPart::low_rank, WorkPart::sparse};
KVC_EXPORT const char* to_string(WorkPart part);

// Measures the parts of the thread that created it, while it is alive. At most one per thread.
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

// While it is alive, the thread's time counts for this part. Nested parts: time counts for the innermost one only, so
// the sum of the parts does not exceed the total.
class KVC_EXPORT TimedPart {
 public:
  explicit TimedPart(WorkPart part);
  ~TimedPart();
  TimedPart(const TimedPart&) = delete;
  TimedPart& operator=(const TimedPart&) = delete;

 private:
  PartTimer* timer_;  // null: not measured
  int before_ = PartTimer::kNone;
};

}  // namespace kvc
