// Tensors as the loops and kernels read them.
#pragma once

#include <ATen/core/Tensor.h>

#include "kvc/number_type.h"
#include "kvc/quant/level_codes.h"

namespace kvc {

inline NumberType scale_type_of(const LevelCodes& x) {
  return x.scale.scalar_type() == at::kByte ? x.byte_scale : number_type_of(x.scale);
}

}  // namespace kvc
