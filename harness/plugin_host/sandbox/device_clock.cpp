#include "sandbox/device_clock.h"

#include <c10/core/impl/VirtualGuardImpl.h>

namespace kvc {

void synchronize(c10::Device device) {
  if (works_apart(device)) c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
}

DeviceMark::DeviceMark(c10::Device device) : now_(std::chrono::steady_clock::now()) {
  if (!works_apart(device)) return;
  event_ = std::make_shared<c10::Event>(device.type(), c10::EventFlag::BACKEND_DEFAULT);  // which has a time
  event_->record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
}

double DeviceMark::seconds_to(const DeviceMark& later) const {
  if (!event_) return std::chrono::duration<double>(later.now_ - now_).count();
  later.event_->synchronize();
  return event_->elapsedTime(*later.event_) / 1e3;
}

}  // namespace kvc
