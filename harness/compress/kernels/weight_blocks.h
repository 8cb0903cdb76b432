// Weights in the blocks that GGUF files hold them in: a row of a matrix is whole blocks, each some values of a few bits
// with the scales of their own. On raw pointers, no LibTorch. Layouts: ggml's src/ggml-common.h (block_q4_0, ...).
#pragma once

#include <cstdint>
#include <string_view>

namespace kvc::kernels {

enum class BlockType : uint8_t { q4_0, q4_1, q5_0, q5_1, q8_0, q4_k, q5_k, q6_k, mxfp4 };
inline constexpr BlockType kLastBlockType = BlockType::mxfp4;

struct BlockLayout {
  std::string_view name;  // "Q4_1"
  int64_t n_values;       // of a block
  int64_t n_bytes;        // it takes
};
const BlockLayout& layout_of(BlockType type);

// The values of whole blocks, bit by bit those of the public gguf package: products in fp32, never fused.
// blocks: n_values / layout.n_values of them, at any alignment; out [n_values]
void expand_blocks(BlockType type, const uint8_t* blocks, int64_t n_values, float* out);

}  // namespace kvc::kernels
