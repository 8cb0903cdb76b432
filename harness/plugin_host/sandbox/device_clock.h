// Time as a device spends it: a GPU works through what it was asked for long after the call that asked has returned.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Event.h>

#include <chrono>
#include <memory>

namespace kvc {

void synchronize(c10::Device device);  // until all that was asked of it is done

// Whether it works on its own, so that a clock of the host between two calls says nothing.
inline bool works_apart(c10::Device device) { return device.is_cuda(); }

// The moment at which what this thread asked of a device before is done; of a device that does not work apart, now.
class DeviceMark {
 public:
  explicit DeviceMark(c10::Device device);
  bool is_apart() const { return event_ != nullptr; }
  double seconds_to(const DeviceMark& later) const;  // of the same device; waits for it

 private:
  std::chrono::steady_clock::time_point now_;
  std::shared_ptr<c10::Event> event_;
};

}  // namespace kvc
