#include "rotation.h"

#include <ATen/ATen.h>
#include <kvc/check.h>

namespace kvquant {

at::Tensor rotated(const at::Tensor& x, int64_t first, std::span<const float> frequencies, int direction) {
  if (frequencies.empty()) return x;
  const auto half = static_cast<int64_t>(frequencies.size());
  KVC_CHECK(2 * half == x.size(2), "kvquant: ", half, " RoPE frequencies for head_dim ", x.size(2));
  auto angles = at::empty({x.size(1), half}, at::kDouble);
  double* angle = angles.data_ptr<double>();
  for (int64_t t = 0; t < x.size(1); ++t) {
    for (const float frequency : frequencies) *angle++ = static_cast<double>(first + t) * frequency;
  }
  const auto cosine = angles.cos().to(x.options()), sine = angles.sin().mul(direction).to(x.options());
  const auto a = x.narrow(2, 0, half), b = x.narrow(2, half, half);
  return at::cat({a * cosine - b * sine, b * cosine + a * sine}, 2);
}

}  // namespace kvquant
