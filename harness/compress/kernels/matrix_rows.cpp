#include "kernels/matrix_rows.h"

#include <algorithm>

#include "kvc/clones.h"

namespace kvc::kernels {

KVC_CLONES void rows_times(const float* x, int64_t n, const float* m, int64_t d, int64_t n_out, float* out) {
  constexpr int64_t kColumns = 64;  // whose sums stay in registers
  for (int64_t row = 0; row < n; ++row, x += d, out += n_out) {
    int64_t first = 0;
    for (; first + kColumns <= n_out; first += kColumns) {
      float sums[kColumns] = {};
      for (int64_t i = 0; i < d; ++i) {
        for (int64_t j = 0; j < kColumns; ++j) sums[j] += x[i] * m[i * n_out + first + j];
      }
      std::copy_n(sums, kColumns, out + first);
    }
    for (; first < n_out; ++first) {
      float sum = 0;
      for (int64_t i = 0; i < d; ++i) sum += x[i] * m[i * n_out + first];
      out[first] = sum;
    }
  }
}

}  // namespace kvc::kernels
