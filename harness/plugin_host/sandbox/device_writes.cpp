#include "sandbox/device_writes.h"

#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "cuda/write_rows.h"

namespace kvc {

StepWrites::Launch launch_of_writes(at::Device device) {
  const auto write = cuda_writes::write_rows_of(device.is_cuda());
  if (!device.is_cuda()) return [write](std::span<const DeviceWrite> writes) { write(writes, nullptr); };
  return [device, write](std::span<const DeviceWrite> writes) {
    const c10::DeviceGuard there(device);
    write(writes, c10::impl::VirtualGuardImpl(device.type()).getStream(device).native_handle());
  };
}

}  // namespace kvc
