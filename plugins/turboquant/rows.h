// The loop over rows, without LibTorch. Nothing fuses a multiplication with an addition: the same bits everywhere.
#pragma once

#include <cstdint>

namespace turboquant {

// codes[i]: how many of the middles, ascending, are not above x[i] / norm; of a norm of 0, not above 0.
void codes_of_row(const float* x, int64_t d, float norm, const float* middles, int64_t n_middles, uint8_t* codes);

}  // namespace turboquant
