#include "run/dtype.h"

#include "kvc/check.h"

namespace kvc {

at::ScalarType parse_dtype(const std::string& name) {
  if (name == "fp32") return at::kFloat;
  if (name == "fp16") return at::kHalf;
  if (name == "bf16") return at::kBFloat16;
  throw Error("dtype '" + name + "', allowed: fp32, fp16, bf16");
}

}  // namespace kvc
