// Intermediate data of a method, for probes.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "kvc/check.h"

namespace kvc {

struct ProbedPart {
  std::string name;   // starts with its tensor: "k_t_l", "v_mask"
  at::Tensor values;  // any shape; a mask is [tokens, channels], bool
};

// Optional interface, found by dynamic_cast on the LayerCache.
class KVC_EXPORT ProbedParts {
 public:
  virtual ~ProbedParts();

  // Data of the prompt, computed on demand and not stored. Probes compute quartiles of floats, and the spectrum of
  // masks.
  virtual std::vector<ProbedPart> probed_parts() const = 0;
};

}  // namespace kvc
