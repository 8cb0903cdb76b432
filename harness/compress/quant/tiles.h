// Rows of groups along tokens in tiles, the order in which attention reads them: the first 16 entries of all rows, row
// after row, then the next 16; the last tile may be narrower.
#pragma once

#include <ATen/ATen.h>

#include "kernels/code_products.h"

namespace kvc {

// x: [H, R, N], rows -> the same sizes, tiles; undefined stays so
inline at::Tensor to_tiles(const at::Tensor& x) {
  constexpr int64_t kTile = kernels::kTileEntries;
  if (!x.defined() || x.size(2) <= kTile) return x;
  const int64_t whole = x.size(2) / kTile * kTile;
  const auto tiles = x.narrow(2, 0, whole).unflatten(2, {-1, kTile}).transpose(1, 2).flatten(1);
  return at::cat({tiles, x.narrow(2, whole, x.size(2) - whole).flatten(1)}, 1).view(x.sizes());
}

inline at::Tensor from_tiles(const at::Tensor& x) {
  constexpr int64_t kTile = kernels::kTileEntries;
  if (!x.defined() || x.size(2) <= kTile) return x;
  const int64_t whole = x.size(2) / kTile * kTile, n_rows = x.size(1), rest = x.size(2) - whole;
  const auto all = x.flatten(1);
  const auto tiles = all.narrow(1, 0, n_rows * whole).view({x.size(0), -1, n_rows, kTile}).transpose(1, 2).flatten(2);
  return at::cat({tiles, all.narrow(1, n_rows * whole, n_rows * rest).view({x.size(0), n_rows, rest})}, 2);
}

}  // namespace kvc
