#include "sandbox/device.h"

#include <ATen/Context.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>

#include "contract/device_name.h"
#include "cuda_emulator/emulated_device.h"
#include "kvc/check.h"
#include "sandbox/cuda_library.h"

namespace kvc {

namespace {

#ifdef KVC_HAVE_CUDA
constexpr int kLeastCapability = KVC_CUDA_LEAST;  // tens and ones, as in sm_80; later ones run its code or compile it
#else
constexpr int kLeastCapability = 0;
#endif

// Tens and ones, by CUDA's runtime, which LibTorch's library brings along; 0: it does not say.
int capability_of(int index) {
  constexpr int kMajor = 75, kMinor = 76;  // cudaDevAttrComputeCapabilityMajor and -Minor
  const auto attribute = reinterpret_cast<int (*)(int*, int, int)>(::dlsym(RTLD_DEFAULT, "cudaDeviceGetAttribute"));
  int major = 0, minor = 0;
  if (!attribute || attribute(&major, kMajor, index) != 0 || attribute(&minor, kMinor, index) != 0) return 0;
  return major * 10 + minor;
}

int n_cuda_devices(const std::string& name) {
  try {
    open_cuda_library();
  } catch (const Error& e) {
    throw Error(concat("device '", name, "': ", e.what()));
  }
  return at::hasCUDA() ? at::detail::getCUDAHooks().deviceCount() : 0;
}

}  // namespace

std::string lacks_kernels(int least, int capability) {
  if (least == 0) return "this kvc was built without CUDA kernels (no nvcc of 12.1 or later, or KVC_CUDA=OFF)";
  if (capability >= least) return "";
  return concat("a GPU of compute capability ", capability / 10, ".", capability % 10, ", expected ", least / 10, ".",
                least % 10, " or later, which this kvc has kernels for");
}

c10::Device device_named(const std::string& name) {
  const auto parsed = parse_device_name(name);
  if (parsed.kind == DeviceName::Kind::cpu) return at::kCPU;
  if (parsed.kind == DeviceName::Kind::emulated) return emulated_device();
  KVC_CHECK(kLeastCapability > 0, "device '", name, "': ", lacks_kernels(0, 0));
  const int n_devices = n_cuda_devices(name);
  KVC_CHECK(parsed.index < n_devices, "device '", name, "': this machine has ", n_devices, " CUDA devices");
  const auto why = lacks_kernels(kLeastCapability, capability_of(parsed.index));
  KVC_CHECK(why.empty(), "device '", name, "': ", why);
  return at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(parsed.index));
}

void synchronize(c10::Device device) {
  if (device.is_cuda()) c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
}

}  // namespace kvc
