// How the floats of a compressed form (scales, minima, factors, outliers, recent tokens) are stored.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "kvc/check.h"

namespace kvc {

enum class Precision {
  real,   // fp16; the encoder uses the rounded values that the decoder will see
  exact,  // fp32, to compare with references that do not round; sizes are not representative
};

inline at::ScalarType storage_type(Precision precision) {
  return precision == Precision::real ? at::kHalf : at::kFloat;
}

inline int64_t storage_bytes(Precision precision) { return precision == Precision::real ? 2 : 4; }

// "real" or "exact", as the option `precision` of plugins.
inline Precision precision_named(const std::string& name) {
  KVC_CHECK(name == "real" || name == "exact", "precision '", name, "', allowed: real, exact");
  return name == "real" ? Precision::real : Precision::exact;
}

}  // namespace kvc
