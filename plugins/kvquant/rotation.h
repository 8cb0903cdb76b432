// Rotating keys by RoPE, and back.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

namespace kvquant {

// x [H, T, D], token t at position first + t: channels i and i + R/2 (R/2 frequencies) rotated by direction (1 or -1) * position *
// frequencies[i] -> fp32, contiguous. As it is where frequencies are empty.
at::Tensor rotated(const at::Tensor& x, int64_t first, std::span<const float> frequencies, int direction);

// The same in place and forwards, x fp32 and contiguous, heads shared by the threads: angles are exact at the first
// token, and advanced in double from there.
void rotate(const at::Tensor& x, int64_t first, std::span<const float> frequencies);

}  // namespace kvquant
