// A model as experiments name it: folder, type, weights, devices.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "contract/quantization_choice.h"
#include "model/transformer.h"

namespace kvc {

at::ScalarType parse_dtype(const std::string& name);  // fp32, fp16, bf16; anything else is an Error

// weights: "dtype" or "int8". devices: "cpu" or "cuda:N", each of which takes an equal run of layers. Throws Error
// where this machine has no such device.
Transformer load_model(const std::filesystem::path& folder, const std::string& dtype,
                       const std::string& weights = "dtype", const std::vector<std::string>& devices = {"cpu"},
                       const QuantizationChoice& quantization = {});

}  // namespace kvc
