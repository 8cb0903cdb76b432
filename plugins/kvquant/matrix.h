// KVQuant's two matrices in one layout: codes of b bits that name a level, each channel of K or token of V with a scale
// and zero of its own, and the entries outside the thresholds kept beside them exactly (dense and sparse):
//   x^ = zero + scale * level[code], or the stored value at an outlier.
// Integer codes: level[c] = c; an outlier is >= the upper or <= the lower quantile, zero and scale come from the
// smallest and largest of the rest. Non-uniform: levels are centroids in [-1, 1]; an outlier is > or < its quantile,
// zero and scale are their middle and half their distance.
#pragma once

#include <kvc/footprint.h>
#include <kvc/quant/precision.h>

#include <cstdint>
#include <vector>

namespace kvquant {

struct Format {
  int64_t bits = 4;
  bool uniform = false;    // integer codes
  double sparsity = 0.01;  // fraction of outliers, half on either side
  kvc::Precision precision = kvc::Precision::real;
};

// What a vector is quantized with. All fp32; a row of K's tables is a channel, of V's a token.
struct Range {
  at::Tensor lower, upper;  // outliers lie beyond; -inf and inf without outliers
  at::Tensor zero, scale;   // as they are stored: rounded to fp16 with Precision::real
};

// The range of each column of x [n, m] (n >= 1 entries each) -> tensors [m].
Range range_of_columns(const at::Tensor& x, const Format& format);

// x, and ranges that broadcast with it -> bool, true at outliers.
at::Tensor outlier_mask(const at::Tensor& x, const at::Tensor& lower, const at::Tensor& upper, const Format& format);

// 2^b centroids, ascending, of k-means in one dimension on the values z of any shape; Lloyd's iteration from their
// quantiles. z may be empty: evenly spaced levels then.
at::Tensor centroids(const at::Tensor& z, int64_t bits);

// Tokens of all heads side by side, [t, H*D], grown in blocks.
class Matrix {
 public:
  // x [t, m] fp32; lower ... scale broadcast with it; levels [2^b] fp32.
  void push_back(const at::Tensor& x, const Range& range, const at::Tensor& levels, const Format& format);
  // [T, m] fp32; zero and scale [T or 1, m or 1].
  at::Tensor dequantize(const at::Tensor& zero, const at::Tensor& scale, const at::Tensor& levels,
                        const Format& format) const;
  int64_t n_tokens() const { return n_tokens_; }
  int64_t n_outliers() const;
  void add_to(kvc::Footprint& bytes, kvc::CacheTensor tensor) const;

 private:
  struct Block {
    at::Tensor codes;          // [t, ceil(m*b/32)] int32
    at::Tensor values, index;  // [outliers] fp16 or fp32, and 16-bit channels, token by token
    at::Tensor counts;         // [t] 16-bit: outliers of each token
  };
  std::vector<Block> blocks_;
  int64_t n_tokens_ = 0, n_channels_ = 0;
};

}  // namespace kvquant
