// Names of the types a model can compute in, as experiments write them.
#pragma once

#include <c10/core/ScalarType.h>

#include <string>

namespace kvc {

at::ScalarType parse_dtype(const std::string& name);  // fp32, fp16, bf16; anything else is an Error

}  // namespace kvc
