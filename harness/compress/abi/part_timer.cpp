#include "kvc/part_timer.h"

namespace kvc {
namespace {

thread_local PartTimer* listening = nullptr;

}  // namespace

const char* to_string(WorkPart part) {
  switch (part) {
    case WorkPart::quantize:
      return "quantize";
    case WorkPart::low_rank:
      return "low_rank";
    case WorkPart::sparse:
      return "sparse";
  }
  throw Error("WorkPart out of range");
}

PartTimer::PartTimer() : since_(Clock::now()) {
  KVC_CHECK(!listening, "PartTimer: this thread has one already");
  listening = this;
}
PartTimer::~PartTimer() { listening = nullptr; }

int PartTimer::switch_to(int part) {
  const auto now = Clock::now();
  if (part_ != kNone) seconds_[static_cast<size_t>(part_)] += std::chrono::duration<double>(now - since_).count();
  since_ = now;
  const int before = part_;
  part_ = part;
  return before;
}

TimedPart::TimedPart(WorkPart part) : timer_(listening) {
  if (timer_) before_ = timer_->switch_to(static_cast<int>(part));
}
TimedPart::~TimedPart() {
  if (timer_) timer_->switch_to(before_);
}

}  // namespace kvc
