// The loops over blocks for the machine that this is.
#pragma once

#include "kernels/weight_blocks.h"

namespace kvc::kernels {

struct BlockLoops {
  const char* machine;
  void (*expand)(BlockType type, const uint8_t* blocks, int64_t n_values, float* out);
  void (*multiply)(BlockType type, const float* x, int64_t n_rows, int64_t k, const uint8_t* w, int64_t first,
                   int64_t end, float* y, int64_t y_stride);
};
const BlockLoops& block_loops();

extern const BlockLoops kLoopsOfV4, kLoopsOfV3, kLoopsOfAny;  // x86-64-v4: AVX-512; x86-64-v3: AVX2, FMA, F16C

}  // namespace kvc::kernels
