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

// Tokens of all heads side by side, [t, m = H*D], grown in blocks.
class Matrix {
 public:
  explicit Matrix(Axis axis) : axis_(axis) {}

  // x [t, m] fp32, contiguous. n_capped: outliers of a token that are kept on either side, the furthest ones by
  // (x - zero) / scale; the others become the outermost code. 0: all.
  void push_back(const at::Tensor& x, const Range& range, const Levels& levels, const Format& format,
                 int64_t n_capped = 0);

  // f(rows [n_heads, n, m / n_heads] fp32, first token) for up to kBlockTokens tokens at a time, in order. channels:
  // the range of Axis::channels.
  template <class F>
  void for_each_tile(const Range& channels, const Levels& levels, const Format& format, int64_t n_heads, F f) const {
    int64_t first = 0;
    for (const auto& block : blocks_) {
      f(decoded(block, channels, levels, format, n_heads), first);
      first += block.codes.size(0);
    }
  }

  at::Tensor dequantize(const Range& channels, const Levels& levels, const Format& format, int64_t n_heads) const;
  int64_t n_tokens() const { return n_tokens_; }
  int64_t n_outliers() const;
  void add_to(kvc::Footprint& bytes, kvc::CacheTensor tensor) const;

 private:
  struct Block {
    at::Tensor codes;          // [t, ceil(m*b/32)] int32
    at::Tensor values, index;  // [outliers] fp16 or fp32, and 16-bit channels, token by token
    at::Tensor counts;         // [t] 16-bit: outliers of each token
    at::Tensor zero, scale;    // [t] fp16 or fp32, of Axis::tokens
  };
  static constexpr int64_t kBlockTokens = 64;  // a step copies at most one block

  void push_rows(const at::Tensor& x, const Range& range, const Levels& levels, const Format& format, int64_t n_capped);
  at::Tensor decoded(const Block& block, const Range& channels, const Levels& levels, const Format& format,
                     int64_t n_heads) const;

  Axis axis_;
  std::vector<Block> blocks_;
  int64_t n_tokens_ = 0, n_channels_ = 0;
};

}  // namespace kvquant
