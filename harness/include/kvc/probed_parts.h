// What a method makes of K and V, for probes to look at.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "kvc/check.h"

namespace kvc {

struct ProbedPart {
  std::string name;   // of its tensor first: "k_t_l", "v_mask"
  at::Tensor values;  // any shape; of a mask [tokens, channels], bool
};

// Optional, found by dynamic_cast on the LayerCache.
class KVC_EXPORT ProbedParts {
 public:
  virtual ~ProbedParts();

  // Of the prompt. Probes take quartiles of floats, and the spectrum of masks. Made when asked for, and not held.
  virtual std::vector<ProbedPart> probed_parts() const = 0;
};

}  // namespace kvc
