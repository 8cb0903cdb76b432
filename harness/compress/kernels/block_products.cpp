#include "kernels/block_products.h"

#include <algorithm>
#include <vector>

#include "kernels/block_machines.h"
#include "kernels/row_products.h"

namespace kvc::kernels {
namespace {

constexpr int64_t kMostFused = 4;  // rows beyond which a block is expanded once for all of them

// A few rows of the matrix are floats at a time, in the first or second cache.
void multiply_many(BlockType type, const float* x, int64_t n_rows, int64_t k, const uint8_t* w, int64_t first,
                   int64_t end, float* y, int64_t y_stride) {
  constexpr int64_t kTile = 4;  // rows
  const auto& layout = layout_of(type);
  const int64_t row_bytes = k / layout.n_values * layout.n_bytes;
  std::vector<float> tile(static_cast<size_t>(kTile * k));
  for (int64_t column = first; column < end; column += kTile) {
    const int64_t n = std::min(kTile, end - column);
    expand_blocks(type, w + column * row_bytes, n * k, tile.data());
    multiply_rows<float>(x, n_rows, k, tile.data(), 0, n, y + column, y_stride);
  }
}

}  // namespace

void multiply_blocks(BlockType type, const float* x, int64_t n_rows, int64_t k, const uint8_t* w, int64_t first,
                     int64_t end, float* y, int64_t y_stride) {
  (n_rows <= kMostFused ? block_loops().multiply : multiply_many)(type, x, n_rows, k, w, first, end, y, y_stride);
}

}  // namespace kvc::kernels
