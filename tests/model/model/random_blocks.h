// Rows of random codes with small scales, in blocks.
#pragma once

#include <ATen/ATen.h>

#include <initializer_list>
#include <random>
#include <utility>

#include "model/ops.h"

namespace kvc::test {

using kvc::kernels::BlockType;

inline constexpr BlockType kBlockTypes[] = {BlockType::q4_0, BlockType::q4_1, BlockType::q5_0,
                                            BlockType::q5_1, BlockType::q8_0, BlockType::q4_k,
                                            BlockType::q5_k, BlockType::q6_k, BlockType::mxfp4};

inline kvc::BlockRows random_blocks(BlockType type, int64_t n_rows, int64_t n_columns, uint64_t seed) {
  const auto& layout = kvc::kernels::layout_of(type);
  const bool is_last = type == BlockType::q6_k;  // its one half stands behind the codes
  const bool has_minimum = type != BlockType::q4_0 && type != BlockType::q5_0 && type != BlockType::q8_0 && !is_last;
  std::mt19937_64 random(seed);
  auto bytes = at::empty({n_rows, n_columns / layout.n_values * layout.n_bytes}, at::kByte);
  auto* data = bytes.mutable_data_ptr<uint8_t>();
  for (int64_t i = 0; i < bytes.numel(); ++i) data[i] = static_cast<uint8_t>(random());
  // The high byte of a half between 2^-9 and 2^-6, of both signs
  const auto shrink = [&](int64_t byte) {
    data[byte] = static_cast<uint8_t>(0x18 + random() % 12 + random() % 2 * 128);
  };
  for (int64_t block = 0; block < bytes.numel(); block += layout.n_bytes) {
    if (type == BlockType::mxfp4) {
      data[block] = static_cast<uint8_t>(118 + random() % 4);  // one exponent
      continue;
    }
    shrink(block + (is_last ? layout.n_bytes - 1 : 1));
    if (has_minimum) shrink(block + 3);
  }
  return {type, bytes};
}

// Runs of these types, `n_rows` each.
inline kvc::Linear random_linear(std::initializer_list<std::pair<BlockType, int64_t>> runs, int64_t n_columns) {
  kvc::Linear linear;
  linear.n_columns = n_columns;
  for (const auto& [type, n_rows] : runs) {
    linear.blocks.push_back(random_blocks(type, n_rows, n_columns, linear.blocks.size() + 1));
  }
  return linear;
}

}  // namespace kvc::test
