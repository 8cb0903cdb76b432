#include "worker/load_model.h"

#include "checkpoint/smoothing.h"
#include "kvc/check.h"
#include "sandbox/device.h"

namespace kvc {

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
  for (const auto& device : devices) options.devices.push_back(device_named(device));
  return Transformer::load(folder, options);
}

}  // namespace kvc
