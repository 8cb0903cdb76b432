// Rows times a matrix, each row alone. Nothing fuses a multiplication with an addition: the same bits everywhere.
#pragma once

#include <cstdint>

namespace kvc::kernels {

// out [n, n_out] = x [n, d] times m [d, n_out]; an entry is summed in the order of its row's.
void rows_times(const float* x, int64_t n, const float* m, int64_t d, int64_t n_out, float* out);

}  // namespace kvc::kernels
