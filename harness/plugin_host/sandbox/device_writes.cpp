#include "sandbox/device_writes.h"

#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "cuda/write_rows.h"

namespace kvc {

StepWrites::Launch launch_of_writes(at::Device device) {
#ifdef KVC_HAVE_CUDA
  if (device.is_cuda()) {
    return [device](std::span<const DeviceWrite> writes) {
      const c10::DeviceGuard there(device);
      cuda::write_rows(writes, c10::impl::VirtualGuardImpl(device.type()).getStream(device).native_handle());
    };
  }
#endif
  return [](std::span<const DeviceWrite> writes) { cuda_emulated::write_rows(writes, nullptr); };
}

}  // namespace kvc
