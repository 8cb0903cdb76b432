// The type of a tensor's numbers, as loops and kernels name it.
#pragma once

#include <ATen/core/Tensor.h>

#include "kvc/check.h"
#include "kvc/quant/stored_numbers.h"

namespace kvc {

inline NumberType number_type_of(const at::Tensor& x) {
  switch (x.scalar_type()) {
    case at::kHalf:
      return NumberType::f16;
    case at::kBFloat16:
      return NumberType::bf16;
    default:
      KVC_CHECK(x.scalar_type() == at::kFloat, "values of type ", x.scalar_type(), ", allowed: fp16, bf16, fp32");
      return NumberType::f32;
  }
}

}  // namespace kvc
