// Turning keys by RoPE, and back.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

namespace kvquant {

// x [H, T, D], token t at position first + t: channels i and i + D/2 turned by direction (1 or -1) * position *
// frequencies[i] -> fp32, contiguous. As it is where frequencies are empty.
at::Tensor rotated(const at::Tensor& x, int64_t first, std::span<const float> frequencies, int direction);

// Cosines and sines of positions first ... first + n - 1, [n, D/2]: angles are exact at the first position, and turned
// on in double from there.
struct Turns {
  std::vector<float> cosine, sine;
  Turns(int64_t first, int64_t n, std::span<const float> frequencies);
};

// rows [n, D] of one head, in place.
void rotate(float* rows, int64_t n, int64_t head_dim, const Turns& turns);

}  // namespace kvquant
