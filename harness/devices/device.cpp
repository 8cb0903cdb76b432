#include "devices/device.h"

#include <ATen/Context.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>

#include "devices/emulated_device.h"
#include "kvc/check.h"
#include "settings/device_name.h"

namespace kvc {

c10::Device device_named(const std::string& name) {
  const auto parsed = parse_device_name(name);
  if (parsed.kind == DeviceName::Kind::cpu) return at::kCPU;
  if (parsed.kind == DeviceName::Kind::emulated) return emulated_device();
  // The CUDA half of LibTorch is large, and there only for those who ask for it.
  KVC_CHECK(::dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL), "device '", name, "': ", ::dlerror());
  const int n_devices = at::hasCUDA() ? at::detail::getCUDAHooks().deviceCount() : 0;
  KVC_CHECK(parsed.index < n_devices, "device '", name, "': this machine has ", n_devices, " CUDA devices");
  return at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(parsed.index));
}

void synchronize(c10::Device device) {
  if (device.is_cuda()) c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
}

}  // namespace kvc
