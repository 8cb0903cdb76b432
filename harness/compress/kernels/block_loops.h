// The loops over blocks, for one kind of machine; each KVC_MACHINE is a file with flags of its own.
#pragma once

#include "kernels/unpack_blocks.h"

namespace kvc::kernels::KVC_MACHINE {

// Of machines from before 2013 the same sums one by one, since their tiles cost minutes to compile.
#ifdef KVC_NO_TILES
constexpr bool kTiles = false;
#else
constexpr bool kTiles = true;
#endif

#ifdef KVC_HALVES
constexpr int kMostTile = 4;  // sums that registers hold
#else
constexpr int kMostTile = 16;
#endif

// y [kRows, kColumns] of x [kRows, k] and kColumns rows of w, in the order of row_products' tiles
// A function of its own: all of them in one would take minutes to compile.
template <int kRows, int kColumns, class Block>
[[gnu::noinline]] void multiply_tile(const float* x, const uint8_t* w, int64_t k, float* y, int64_t y_stride) {
  const int64_t row_bytes = k / Block::kValues * Block::kBytes,
                ahead = kColumns * row_bytes > kAhead ? kColumns * row_bytes : kAhead;
  Floats sums[kRows][kColumns] = {};
  for (int64_t i = 0; i < k; i += Block::kValues, w += Block::kBytes) {
    decltype(Block::scales(w)) scales[kColumns];
    for (int c = 0; c < kColumns; ++c) {
      scales[c] = Block::scales(w + c * row_bytes);
      for (int64_t line = 0; line < Block::kBytes; line += 64) __builtin_prefetch(w + c * row_bytes + ahead + line);
    }
#pragma GCC unroll 8  // shifts and places become constants
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
  const int64_t row_bytes = k / Block::kValues * Block::kBytes;
  const auto multiply_rows = [&]<int kRows>(int64_t row) __attribute__((always_inline)) {
    constexpr int kNarrow = std::min(kColumns, kMostTile / kRows);
    for (int c = 0; c < kColumns; c += kNarrow) {
      multiply_tile<kRows, kNarrow, Block>(x + row * k, w + c * row_bytes, k, y + row * y_stride + c, y_stride);
    }
  };
  int64_t row = 0;
  if constexpr (kTiles) {
    for (; row + 4 <= n_rows; row += 4) multiply_rows.template operator()<4>(row);
    for (; row + 2 <= n_rows; row += 2) multiply_rows.template operator()<2>(row);
  }
  for (; row < n_rows; ++row) multiply_rows.template operator()<1>(row);
}

inline void multiply(BlockType type, const float* x, int64_t n_rows, int64_t k, const uint8_t* w, int64_t first,
                     int64_t end, float* y, int64_t y_stride) {
  for_block_type(
      type, [&]<BlockType kType>(Block<kType>) __attribute__((always_inline)) {
        using B = Block<kType>;
        const int64_t row_bytes = k / B::kValues * B::kBytes;
        int64_t column = first;
        if constexpr (kTiles) {
          for (; column + 4 <= end; column += 4) {
            multiply_columns<4, B>(x, n_rows, k, w + column * row_bytes, y + column, y_stride);
          }
        }
        for (; column < end; ++column) {
          multiply_columns<1, B>(x, n_rows, k, w + column * row_bytes, y + column, y_stride);
        }
      });
}

inline void expand(BlockType type, const uint8_t* blocks, int64_t n_values, float* out) {
  for_block_type(
      type, [&]<BlockType kType>(Block<kType> block) __attribute__((always_inline)) {
        for (int64_t i = 0; i < n_values; i += block.kValues, blocks += block.kBytes) {
          const auto scales = block.scales(blocks);
#pragma GCC unroll 8
          for (int64_t group = 0; group < block.kValues / (2 * kLanes); ++group) {
            Floats steps[2];
            block.unpack(blocks, scales, group, steps);
            for (int64_t s = 0; s < 2; ++s) store(steps[s], out + i + (2 * group + s) * kLanes);
          }
        }
      });
}

}  // namespace kvc::kernels::KVC_MACHINE
