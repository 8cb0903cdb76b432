// Tensors as the loops and kernels read them.
#pragma once

#include <ATen/core/Tensor.h>

#include "kvc/check.h"
#include "kvc/quant/level_codes.h"

namespace kvc {

inline NumberType number_type_of(const at::Tensor& x) {
  switch (x.scalar_type()) {
    case at::kHalf:
      return NumberType::f16;
    case at::kBFloat16:
      return NumberType::bf16;
    default:
      KVC_CHECK(x.scalar_type() == at::kFloat, "attend: values of type ", x.scalar_type(),
                ", allowed: fp16, bf16, fp32");
      return NumberType::f32;
  }
}

inline NumberType scale_type_of(const LevelCodes& x) {
  return x.scale.scalar_type() == at::kByte ? x.byte_scale : number_type_of(x.scale);
}

}  // namespace kvc
