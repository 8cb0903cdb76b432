// Turning keys by RoPE, and back.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

namespace kvquant {

// x [H, T, D] fp32, token t at position first + t: channels i and i + D/2 turned by direction (1 or -1) * position *
// frequencies[i]. As it is where frequencies are empty.
at::Tensor rotated(const at::Tensor& x, int64_t first, std::span<const float> frequencies, int direction);

}  // namespace kvquant
