// KVQuant's two matrices in one layout: codes of b bits that name a level, each channel of K or token of V with a scale
// and zero of its own, and the entries outside the thresholds kept beside them exactly (dense and sparse):
//   x^ = zero + scale * level[code], or the stored value at an outlier.
// Integer codes: level[c] = c; an outlier is >= the upper or <= the lower quantile, zero and scale come from the
// smallest and largest of the rest. Non-uniform: levels are centroids in [-1, 1]; an outlier is > or < its quantile,
// zero and scale are their middle and half their distance.
#pragma once

#include <ATen/ATen.h>
#include <kvc/footprint.h>

#include <cstdint>
#include <vector>

#include "levels.h"
#include "range.h"

namespace kvquant {

// What codes stand for before scale and zero, [2^b].
std::vector<float> values_of(const Levels& levels, const Format& format);

// Tokens of all heads side by side, [t, m = H*D], grown in blocks.
class Matrix {
 public:
  struct Block {
    at::Tensor codes;          // [n_parts, t, ceil(m/n_parts*b/32)] int32; that of an outlier is 0
    at::Tensor values, index;  // [outliers] fp16 or fp32, and 16-bit channels, token by token, ascending
    at::Tensor counts;         // [t] 16-bit: outliers of each token
    at::Tensor zero, scale;    // [t] fp16 or fp32, of Axis::tokens
    int64_t n_tokens() const { return codes.size(1); }
  };

  // n_parts: how many parts of a token's codes, its heads, stand apart, as attention over codes reads them; 0: none.
  // What is held lies on `device`.
  explicit Matrix(Axis axis, int64_t n_parts = 0, at::Device device = at::kCPU)
      : axis_(axis), n_parts_(n_parts), device_(device) {}

  // x [t, m] fp32, contiguous, and the range where the matrix lies. n_capped: outliers of a token that are kept on
  // either side, the furthest ones by (x - zero) / scale; the others become the outermost code. 0: all.
  void push_back(const at::Tensor& x, const Range& range, const Levels& levels, const Format& format,
                 int64_t n_capped = 0);

  // In order. Attention reads the codes of tokens in parts, and decodes others, some tokens at a time.
  const std::vector<Block>& blocks() const { return blocks_; }

  // f(rows [n_heads, n, m / n_heads] fp32, first token) for a block's tokens at a time, in order. channels: the range
  // of Axis::channels.
  template <class F>
  void for_each_tile(const Range& channels, const Levels& levels, const Format& format, int64_t n_heads, F f) const {
    int64_t first = 0;
    for (const auto& block : blocks_) {
      f(decoded(block, channels, levels, format, n_heads), first);
      first += block.n_tokens();
    }
  }

  at::Tensor dequantize(const Range& channels, const Levels& levels, const Format& format, int64_t n_heads) const;
  int64_t n_tokens() const { return n_tokens_; }
  int64_t n_outliers() const;
  void add_to(kvc::Footprint& bytes, kvc::CacheTensor tensor) const;

 private:
  static constexpr int64_t kBlockTokens = 64;   // a step copies at most one block
  static constexpr int64_t kMostTokens = 1024;  // of a block that came at once, in parts

  void push_rows(Block block, int64_t n_channels);
  Block encoded(const at::Tensor& x, const Range& range, const Levels& levels, const Format& format,
                int64_t n_capped) const;
  Block encoded_on_device(const at::Tensor& x, const Range& range, const Levels& levels, const Format& format,
                          int64_t n_capped) const;
  at::Tensor packed(const at::Tensor& codes, const Format& format) const;
  at::Tensor decoded(const Block& block, const Range& channels, const Levels& levels, const Format& format,
                     int64_t n_heads) const;

  at::Tensor decoded_on_device(const Block& block, const Range& channels, const Levels& levels, const Format& format,
                               int64_t n_heads) const;

  Axis axis_;
  int64_t n_parts_;
  at::Device device_;
  std::vector<Block> blocks_;
  int64_t n_tokens_ = 0, n_channels_ = 0;
};

}  // namespace kvquant
