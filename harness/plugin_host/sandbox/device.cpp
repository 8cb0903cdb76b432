#include "sandbox/device.h"

#include <ATen/ATen.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <dlfcn.h>

#include <cstdlib>
#include <set>

#include "contract/device_name.h"
#include "cuda_emulator/emulated_device.h"
#include "kvc/check.h"
#include "sandbox/cuda_library.h"
#include "sandbox/device_clock.h"

namespace kvc {

namespace {

#ifdef KVC_HAVE_CUDA
constexpr int kLeastCapability = KVC_CUDA_LEAST;  // tens and ones, as in sm_80; later ones run its code or compile it
#else
constexpr int kLeastCapability = 0;
#endif

// A function of CUDA's runtime, which LibTorch's library brings along; or null.
template <class Function>
Function* cuda_function(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_DEFAULT, name));
}

// Tens and ones; 0: the runtime does not say.
int capability_of(int index) {
  constexpr int kMajor = 75, kMinor = 76;  // cudaDevAttrComputeCapabilityMajor and -Minor
  const auto attribute = cuda_function<int(int*, int, int)>("cudaDeviceGetAttribute");
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

std::string why_no_device() {
  const auto version = [](const char* name) {
    const auto ask = cuda_function<int(int*)>(name);
    int number = 0;
    return ask && ask(&number) == 0 ? number : 0;
  };
  const auto count = cuda_function<int(int*)>("cudaGetDeviceCount");
  const auto words = cuda_function<const char*(int)>("cudaGetErrorString");
  int n_devices = 0;
  const int error = count ? count(&n_devices) : 0;
  return kvc::why_no_device(error != 0 && words ? words(error) : "", version("cudaDriverGetVersion"),
                            version("cudaRuntimeGetVersion"), std::getenv("CUDA_VISIBLE_DEVICES"));
}

// Kept by LibTorch's libraries from a thread's first product and decomposition on (cuBLAS: 8 to 32 MB): of no account
// here, of a sequence's where a compressor's were the first.
void multiply_and_decompose(at::Device device) {
  for (const auto dtype : {at::kFloat, at::kHalf, at::kBFloat16}) {
    const auto x = at::ones({1, 16, 16}, at::TensorOptions(dtype).device(device));
    at::bmm(x, x), at::mm(x[0], x[0]);
  }
  const auto unit = at::eye(4, at::TensorOptions(at::kFloat).device(device));
  at::linalg_qr(unit), at::linalg_eigh(unit);
  synchronize(device);
}

// A thread's first use of a device.
at::Device ready(at::Device device) {
  static thread_local std::set<c10::DeviceIndex> are_ready;
  if (are_ready.insert(device.index()).second) multiply_and_decompose(device);
  return device;
}

}  // namespace

std::string lacks_kernels(int least, int capability) {
  if (least == 0)
    return "this kvc was built without CUDA kernels: `./kvc setup --gpu`, with nvcc 12.1 or later, builds it with them";
  if (capability >= least) return "";
  return concat("a GPU of compute capability ", capability / 10, ".", capability % 10, ", expected ", least / 10, ".",
                least % 10, " or later, which this kvc has kernels for");
}

std::string why_no_device(const std::string& cuda_says, int driver, int runtime, const char* visible) {
  const auto version = [](int number) { return concat(number / 1000, ".", number % 1000 / 10); };
  std::string why = cuda_says;
  const auto add = [&](const std::string& more) { why += (why.empty() ? "" : "; ") + more; };
  if (driver == 0) add("no driver was found (libcuda.so.1)");
  if (driver > 0 && driver / 1000 < runtime / 1000) {
    add(concat("the driver is for CUDA ", version(driver), ", LibTorch for ", version(runtime),
               ", which needs a later driver"));
  }
  if (visible) add(concat("CUDA_VISIBLE_DEVICES is '", visible, "'"));
  return why;
}

c10::Device device_named(const std::string& name) {
  const auto parsed = parse_device_name(name);
  if (parsed.kind == DeviceName::Kind::cpu) return at::kCPU;
  if (parsed.kind == DeviceName::Kind::emulated) return emulated_device();
  KVC_CHECK(kLeastCapability > 0, "device '", name, "': ", lacks_kernels(0, 0));
  const int n_devices = n_cuda_devices(name);
  KVC_CHECK(n_devices > 0, "device '", name, "': this machine has no CUDA device: ", why_no_device());
  KVC_CHECK(parsed.index < n_devices, "device '", name, "': this machine has ", n_devices,
            " CUDA devices, numbered from 0 (those in CUDA_VISIBLE_DEVICES; of a GPU in MIG mode, one instance)");
  const auto why = lacks_kernels(kLeastCapability, capability_of(parsed.index));
  KVC_CHECK(why.empty(), "device '", name, "': ", why);
  return ready(at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(parsed.index)));
}

std::optional<int64_t> free_device_bytes(c10::Device device) {
  if (!device.is_cuda()) return std::nullopt;
  constexpr auto kAll = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  auto* allocator = c10::getDeviceAllocator(device.type());
  const auto stats = allocator->getDeviceStats(device.index());
  const int64_t kept = stats.reserved_bytes[kAll].current - stats.allocated_bytes[kAll].current;
  return static_cast<int64_t>(allocator->getMemoryInfo(device.index()).first) + kept;
}

}  // namespace kvc
