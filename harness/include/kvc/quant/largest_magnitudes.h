// A calibration of scales: the largest magnitudes of K and of V over texts, by layer and KV head.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "kvc/calibration.h"

namespace kvc {

struct LargestMagnitudes {
  at::Tensor k, v;  // [n_layers, H_kv] fp32, at least 0
};

// Writes the tensors "k.largest" and "v.largest".
KVC_EXPORT std::unique_ptr<Calibrator> learn_largest_magnitudes(const ModelShape& model);

// Throws Error, naming the method, if one is missing, of another shape or type, negative or not finite.
KVC_EXPORT LargestMagnitudes largest_magnitudes(const char* method, const ModelShape& model,
                                                const NamedTensors& tensors);

}  // namespace kvc
