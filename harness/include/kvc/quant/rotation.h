// Matrices that methods turn K and V by before they quantize them.
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

// x [.., D] times m [D, E], both fp32, contiguous and on one device -> [.., E] fp32: each row alone, its sums in the
// order of its entries, so that a token's bits do not depend on those beside it. On a GPU in fp64, so that the order
// shows in next to no bit of what is rounded to fp32.
KVC_EXPORT at::Tensor rows_times(const at::Tensor& x, const at::Tensor& m);

// Sylvester's Hadamard matrix over sqrt(d), [d, d] fp64: symmetric, its own inverse. d: a power of two.
KVC_EXPORT at::Tensor hadamard_matrix(int64_t d);
// Throws, naming the method, where there is none of the model's head_dim.
KVC_EXPORT void check_hadamard(const char* method, int64_t head_dim);

// Matrices that all caches of a compressor share, made once for each device. Safe to call from several threads.
class KVC_EXPORT SharedMatrices {
 public:
  // What make() gave for this name, on the device: fp32, contiguous.
  at::Tensor get(const std::string& name, at::Device device, const std::function<at::Tensor()>& make) const;

 private:
  mutable std::mutex mutex_;
  mutable std::map<std::tuple<std::string, at::DeviceType, at::DeviceIndex>, at::Tensor> made_;
};

}  // namespace kvc
