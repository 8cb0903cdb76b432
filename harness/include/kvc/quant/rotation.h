// Matrices by which methods rotate K and V before quantization.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <tuple>

#include "kvc/check.h"

namespace kvc {

// x [.., D] times m [D, E], both fp32, contiguous and on one device -> [.., E] fp32. Each row is summed separately, in
// the order of its entries, so that a token's result does not depend on other tokens, bit for bit. On a GPU the sums
// are fp64, so that the order hardly ever changes a bit after rounding to fp32.
KVC_EXPORT at::Tensor rows_times(const at::Tensor& x, const at::Tensor& m);

// Sylvester's Hadamard matrix over sqrt(d), [d, d] fp64: symmetric, its own inverse. d: a power of two.
KVC_EXPORT at::Tensor hadamard_matrix(int64_t d);
// Throws Error, naming the method, if there is none for this head_dim.
KVC_EXPORT void check_hadamard(const char* method, int64_t head_dim);

// Matrices that all caches of a compressor share, created once per device. Thread-safe.
class KVC_EXPORT SharedMatrices {
 public:
  // The result of make() for this name, on the device: fp32, contiguous.
  at::Tensor get(const std::string& name, at::Device device, const std::function<at::Tensor()>& make) const;

 private:
  mutable std::mutex mutex_;
  mutable std::map<std::tuple<std::string, at::DeviceType, at::DeviceIndex>, at::Tensor> made_;
};

}  // namespace kvc
