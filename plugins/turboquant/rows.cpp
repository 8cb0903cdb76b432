#include "rows.h"

#include <kvc/clones.h>

#include <algorithm>

namespace turboquant {

KVC_CLONES void codes_of_row(const float* x, int64_t d, float norm, const float* middles, int64_t n_middles,
                             uint8_t* codes) {
  constexpr int64_t kRun = 64;
  for (int64_t first = 0; first < d; first += kRun) {
    const int64_t n = std::min(kRun, d - first);
    int32_t counts[kRun] = {};
    float z[kRun] = {};
    for (int64_t j = 0; j < n && norm > 0; ++j) z[j] = x[first + j] / norm;
    for (int64_t k = 0; k < n_middles; ++k) {
      for (int64_t j = 0; j < kRun; ++j) counts[j] += z[j] >= middles[k] ? 1 : 0;
    }
    for (int64_t j = 0; j < n; ++j) codes[first + j] = static_cast<uint8_t>(counts[j]);
  }
}

}  // namespace turboquant
