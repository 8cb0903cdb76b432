// How the next token is chosen from its logits, as an experiment says it.
#pragma once

#include <cstdint>

namespace kvc {

struct Sampling {
  double temperature = 0;  // 0: greedy, the largest logit and of equal ones the first
  int64_t top_k = 0;       // of the k largest only; 0: of all
  double top_p = 1;        // of the fewest that together have at least this probability
  int64_t seed = 0;
};

}  // namespace kvc
