// A checkpoint's tensors under the names of TensorNames, of files that hold them otherwise: below a wrapper's prefix,
// beside towers for images, or all experts of a layer in one tensor.
#pragma once

#include <memory>

#include "checkpoint/model_config.h"
#include "checkpoint/tensor_source.h"

namespace kvc {

// Fused experts, as transformers and gpt-oss have them below <experts>. (ExpertFields::interleaved):
//   gate_up_proj [E, 2F, hidden], gate first, or interleaved [E, hidden, 2F] and its gate_up_proj_bias [E, 2F];
//   down_proj [E, hidden, F], or interleaved [E, F, hidden] and its down_proj_bias [E, hidden];
//   in MXFP4 <name>_blocks uint8 [E, rows, columns / 32, 16], low nibble first, and <name>_scales uint8 [E, rows,
//   columns / 32]. One layer's fused tensors are held at a time.
std::unique_ptr<TensorSource> adapted_tensors(std::unique_ptr<TensorSource> source, const ModelConfig& config);

}  // namespace kvc
