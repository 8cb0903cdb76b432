#include "kernels/sign_products.h"

#include "kernels/code_machines.h"
#include "kernels/lanes.h"

namespace kvc::kernels {
namespace {

using Pair = Sixteen<float>;  // sixteen in one vector go through memory where the machine has registers of eight

}  // namespace

void dot_signs(const float* x, int64_t n_words, const int32_t* rows, int64_t n_rows, float* sums) {
  code_loops().dot_signs(x, n_words, rows, n_rows, sums);
}

KVC_CLONES void mix_chosen_rows(const float* x, const uint8_t* rows, int64_t n_rows, const float* w, int64_t stride,
                                int64_t dim, float* y) {
  for (int64_t j = 0; j < dim; j += 2 * kLanes) {
    Pair low = {}, high = {};
    for (int64_t i = 0; i < n_rows; ++i) {
      const float* row = w + rows[i] * stride + j;
      low += x[rows[i]] * load<Pair>(row);
      high += x[rows[i]] * load<Pair>(row + kLanes);
    }
    store(low, y + j);
    store(high, y + j + kLanes);
  }
}

KVC_CLONES void add_scaled_by_halves(const uint16_t* halves, double factor, const float* x, int64_t n, float* y) {
  const auto f = static_cast<float>(factor);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    store(load<Pair>(y + i) + f * half_values(load<Sixteen<uint16_t>>(halves + i)) * load<Pair>(x + i), y + i);
  }
  for (; i < n; ++i) y[i] += f * half_value(halves[i]) * x[i];
}

}  // namespace kvc::kernels
