#include "worker/load_model.h"

#include <ATen/Context.h>
#include <dlfcn.h>

#include <charconv>

#include "checkpoint/smoothing.h"
#include "kvc/check.h"

namespace kvc {
namespace {

// "cuda:3" -> 3
int cuda_index(const std::string& name) {
  int index = -1;
  const auto digits = name.starts_with("cuda:") ? name.substr(5) : "";
  const auto end = digits.data() + digits.size();
  const bool whole = !digits.empty() && std::from_chars(digits.data(), end, index).ptr == end;
  KVC_CHECK(whole && index >= 0 && index < 128, "device '", name, "', expected cpu or cuda:N");
  return index;
}

at::Device parse_device(const std::string& name) {
  if (name == "cpu") return at::kCPU;
  const int index = cuda_index(name);
  // The CUDA half of LibTorch is large, and there only for those who ask for it.
  KVC_CHECK(::dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL), "device '", name, "': ", ::dlerror());
  const int n_devices = at::hasCUDA() ? at::detail::getCUDAHooks().deviceCount() : 0;
  KVC_CHECK(index < n_devices, "device '", name, "': this machine has ", n_devices, " CUDA devices");
  return at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(index));
}

}  // namespace

at::ScalarType parse_dtype(const std::string& name) {
  if (name == "fp32") return at::kFloat;
  if (name == "fp16") return at::kHalf;
  if (name == "bf16") return at::kBFloat16;
  throw Error("dtype '" + name + "', allowed: fp32, fp16, bf16");
}

Transformer load_model(const std::filesystem::path& folder, const std::string& dtype, const std::string& weights,
                       const std::vector<std::string>& devices, const QuantizationChoice& quantization) {
  KVC_CHECK(weights == "dtype" || weights == "int8", "weights '", weights, "', allowed: dtype, int8");
  LoadOptions options{.dtype = parse_dtype(dtype), .quantization = load_quantization(quantization), .devices = {}};
  if (weights == "int8") options.quantization.weight_bits = 8;
  for (const auto& device : devices) options.devices.push_back(parse_device(device));
  return Transformer::load(folder, options);
}

}  // namespace kvc
