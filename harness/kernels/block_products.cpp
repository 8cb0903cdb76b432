#include "kernels/block_products.h"

#include <algorithm>
#include <vector>

#include "kernels/row_products.h"
#include "kernels/unpack_blocks.h"

namespace kvc::kernels {
namespace {

constexpr int64_t kAhead = 4096;   // bytes that memory is asked for before their use: the latency of a few lines
constexpr int64_t kMostFused = 4;  // rows beyond which a block is expanded once for all of them

// y [kRows, kColumns] of x [kRows, k] and kColumns rows of w, in the order of row_products' tiles
template <int kRows, int kColumns, class Block>
KVC_INLINE void multiply_tile(const float* x, const uint8_t* w, int64_t k, float* y, int64_t y_stride) {
  const int64_t row_bytes = k / Block::kValues * Block::kBytes, ahead = std::max(kColumns * row_bytes, kAhead);
  Floats sums[kRows][kColumns] = {};
  for (int64_t i = 0; i < k; i += Block::kValues, w += Block::kBytes) {
    decltype(Block::scales(w)) scales[kColumns];
    for (int c = 0; c < kColumns; ++c) {
      scales[c] = Block::scales(w + c * row_bytes);
      for (int64_t line = 0; line < Block::kBytes; line += 64) __builtin_prefetch(w + c * row_bytes + ahead + line);
    }
    for (int64_t group = 0; group < Block::kValues / (2 * kLanes); ++group) {
      for (int c = 0; c < kColumns; ++c) {
        Floats steps[2];
        Block::unpack(w + c * row_bytes, scales[c], group, steps);
        for (int s = 0; s < 2; ++s) {
          for (int r = 0; r < kRows; ++r) {
            sums[r][c] += (Floats)words(x + r * k + i + (2 * group + s) * kLanes) * steps[s];
          }
        }
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    if constexpr (kColumns == 4) {
      add_totals(sums[r], y + r * y_stride);
    } else {
      for (int c = 0; c < kColumns; ++c) y[r * y_stride + c] += total(sums[r][c]);
    }
  }
}

template <int kColumns, class Block>
KVC_INLINE void multiply_columns(const float* x, int64_t n_rows, int64_t k, const uint8_t* w, float* y,
                                 int64_t y_stride) {
  int64_t row = 0;
  for (; row + 4 <= n_rows; row += 4)
    multiply_tile<4, kColumns, Block>(x + row * k, w, k, y + row * y_stride, y_stride);
  for (; row + 2 <= n_rows; row += 2)
    multiply_tile<2, kColumns, Block>(x + row * k, w, k, y + row * y_stride, y_stride);
  for (; row < n_rows; ++row) multiply_tile<1, kColumns, Block>(x + row * k, w, k, y + row * y_stride, y_stride);
}

KVC_CLONES void multiply_few(BlockType type, const float* x, int64_t n_rows, int64_t k, const uint8_t* w, int64_t first,
                             int64_t end, float* y, int64_t y_stride) {
  for_block_type(
      type, [&]<BlockType kType>(Block<kType>) __attribute__((always_inline)) {
        using B = Block<kType>;
        const int64_t row_bytes = k / B::kValues * B::kBytes;
        int64_t column = first;
        for (; column + 4 <= end; column += 4) {
          multiply_columns<4, B>(x, n_rows, k, w + column * row_bytes, y + column, y_stride);
        }
        for (; column < end; ++column) {
          multiply_columns<1, B>(x, n_rows, k, w + column * row_bytes, y + column, y_stride);
        }
      });
}

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
  (n_rows <= kMostFused ? multiply_few : multiply_many)(type, x, n_rows, k, w, first, end, y, y_stride);
}

}  // namespace kvc::kernels
