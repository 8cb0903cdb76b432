// What decode kernels read of a compressed cache, for nvcc and g++ alike. Nothing here runs on a device.
//
// A cache is a pool of pages for all sequences and KV heads; a page holds `page_tokens` tokens of one of them:
//   rows   token after token, each of head_dim * bits / 8 bytes: the words of GroupCodes of axis channels, so a word
//          holds 32 / bits neighbouring channels, the first in its lowest bits; with 16 bits the numbers themselves
//   sides  a pair (scale, zero) of fp16 a group, scale first; symmetric: the scale alone
//          Axis::channels  [page_tokens, head_dim / group_size]: a group is some channels of one token
//          Axis::tokens    [page_tokens / group_size, head_dim]: a group is some tokens of one channel
// A number is scale * code + zero; symmetric: scale * (code - (2^(bits - 1) - 1)).
// Behind the coded tokens of a row (a sequence's KV head) stands a window of its newest tokens in 16 bits.
#pragma once

#include <cstdint>

namespace kvc::cuda_cache {

enum class Axis : int { channels, tokens };

template <int bits, Axis axis_ = Axis::channels, bool symmetric = false>
struct Format {
  static_assert(bits == 2 || bits == 4 || bits == 8 || bits == 16);
  static constexpr int kBits = bits;
  static constexpr Axis kAxis = axis_;
  static constexpr bool kSymmetric = symmetric;
  static constexpr int kCodes = 32 / bits;  // a word
  static constexpr int kCentre = symmetric ? (1 << (bits - 1)) - 1 : 0;
  static constexpr int kSideBytes = bits == 16 ? 0 : symmetric ? 2 : 4;  // a group
};

// The bytes that a page takes, and what a step reads of one token.
struct Sizes {
  int64_t row_bytes, page_row_bytes, page_side_bytes;
  double bytes_a_token;
};

template <class Format>
Sizes sizes_of(int head_dim, int group_size, int page_tokens) {
  const int64_t row = static_cast<int64_t>(head_dim) * Format::kBits / 8;
  const bool along_tokens = Format::kAxis == Axis::tokens;
  const int64_t groups = Format::kSideBytes == 0 ? 0
                         : along_tokens          ? static_cast<int64_t>(page_tokens / group_size) * head_dim
                                                 : static_cast<int64_t>(head_dim / group_size) * page_tokens;
  const int64_t sides = groups * Format::kSideBytes;
  return {row, row * page_tokens, sides, static_cast<double>(row) + static_cast<double>(sides) / page_tokens};
}

// The tokens of one row are cut into tiles, those of the window behind the coded ones; a split is a run of tiles.
struct Plan {
  int n_splits, tiles_a_split;
};

// Enough blocks for `wanted_blocks` (twice the multiprocessors, say), and none without a tile of the longest row.
inline Plan plan_splits(int n_rows, int most_tiles, int wanted_blocks) {
  const int wanted = n_rows > 0 ? (wanted_blocks + n_rows - 1) / n_rows : 1;
  const int splits = wanted < 1 ? 1 : wanted < most_tiles ? wanted : most_tiles < 1 ? 1 : most_tiles;
  const int each = most_tiles < 1 ? 1 : (most_tiles + splits - 1) / splits;
  return {most_tiles < 1 ? 1 : (most_tiles + each - 1) / each, each};
}

}  // namespace kvc::cuda_cache
