// For methods that compress keys before RoPE: caches get keys after it, and turn them back.
//   const auto plain = turned(k, info().first_position + length(), info().rope_frequencies, -1);  // in append()
//   turn(keys, info().first_position + first, info().rope_frequencies);                           // before the scores
// A plugin that does so declares turns_keys (plugin.h): its tokens must have their positions in the text.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

#include "kvc/check.h"

namespace kvc {

// x: [H, T, D], token t at position first + t. Channels i and i + R/2 (frequencies: [R/2], LayerInfo::rope_frequencies)
// are rotated by direction * position * frequencies[i] radians; direction: 1, or -1 to undo it. -> [H, T, D] fp32,
// contiguous; x as it is where frequencies are empty. Throws Error where they are more than D/2.
KVC_EXPORT at::Tensor turned(const at::Tensor& x, int64_t first, std::span<const float> frequencies, int direction);

// The same in place with direction 1, x fp32 and contiguous, heads shared by the threads: angles are exact at the first
// token, and advanced in double from there.
KVC_EXPORT void turn(const at::Tensor& x, int64_t first, std::span<const float> frequencies);

}  // namespace kvc
