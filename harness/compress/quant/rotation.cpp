#include "kvc/quant/rotation.h"

#include <ATen/ATen.h>

#include <bit>
#include <cmath>

#include "kernels/matrix_rows.h"
#include "kvc/shared.h"

namespace kvc {

at::Tensor rows_times(const at::Tensor& x, const at::Tensor& m) {
  const int64_t d = m.size(0);
  if (!x.is_cpu()) return at::matmul(x.to(at::kDouble), m.to(at::kDouble)).to(at::kFloat);
  auto sizes = x.sizes().vec();
  sizes.back() = m.size(1);
  auto out = at::empty(sizes, at::kFloat);
  kernels::rows_times(x.const_data_ptr<float>(), x.numel() / d, m.const_data_ptr<float>(), d, m.size(1),
                      out.data_ptr<float>());
  return out;
}

at::Tensor hadamard_matrix(int64_t d) {
  auto matrix = at::empty({d, d}, at::kDouble);
  const double size = 1 / std::sqrt(static_cast<double>(d));
  auto* out = matrix.data_ptr<double>();
  for (int64_t i = 0; i < d; ++i) {
    for (int64_t j = 0; j < d; ++j) *out++ = std::popcount(static_cast<uint64_t>(i & j)) % 2 == 0 ? size : -size;
  }
  return matrix;
}

void check_hadamard(const char* method, int64_t head_dim) {
  KVC_CHECK(head_dim >= 2 && std::has_single_bit(static_cast<uint64_t>(head_dim)), method, ": head_dim ", head_dim,
            ", allowed: a power of two, which a Hadamard matrix needs");
}

at::Tensor SharedMatrices::get(const std::string& name, at::Device device,
                               const std::function<at::Tensor()>& make) const {
  const Shared shared;
  const std::lock_guard lock(mutex_);
  auto& made = made_[{name, device.type(), device.index()}];
  if (!made.defined()) made = make().to(device, at::kFloat).contiguous();
  return made;
}

}  // namespace kvc
