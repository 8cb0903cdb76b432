// TurboQuant of vectors x of one head: a norm, and a code for each coordinate of the rotated direction
//   z = R^T x / |x|  (R [D, D]: orthogonal columns of length sqrt(D)),   x^ = |x|/D * R level[code]
// and, with a sketch, the signs and norm of what is left, r = x - x^:
//   x^ + sqrt(pi/2)/D * |r| * S sign(S^T r)  (S [D, D]: N(0, 1) entries), unbiased in <q, .> over S,
// which scores are computed from. It is farther from x than x^ is; nearest, for r of uniform direction, is
//   x^ + |r| * W sign(S^T r),  W as kvc::least_squares_of_signs derives it.
// Rows are computed one by one, so that a token's codes do not depend on those beside it.
#pragma once

#include <kvc/footprint.h>
#include <kvc/quant/level_codes.h>
#include <kvc/quant/precision.h>

#include <vector>

namespace turboquant {

// What all rows share; constants of the method.
struct Tables {
  at::Tensor rotation, sketch;         // R and S, fp32; sketch undefined without one
  std::vector<float> levels, middles;  // 2^b, and 2^b - 1 between them
  int64_t bits = 4;
  bool keeps_length = false;  // |x^| = |x|: the norm that is held is |x| over the length that the levels have
};

// x [.., D] fp32 times R, or times its transpose: each row alone, sums in the order of its entries.
at::Tensor turned(const at::Tensor& x, const Tables& tables);
at::Tensor turned_back(const at::Tensor& x, const Tables& tables);

class RotatedCodes {
 public:
  // x [H, t, D] fp32. Throws where a norm is beyond fp16.
  void push_back(const at::Tensor& x, const Tables& tables, kvc::Precision precision);
  at::Tensor dequantize(const Tables& tables) const;  // [H, T, D] fp32; undefined without tokens
  at::Tensor attended(const Tables& tables) const;    // the unbiased one
  int64_t n_tokens() const { return n_tokens_; }

  // f(|x|/D * level[code] of [H, t, D], index of the first token): x^ before it is turned back, whose product with R^T
  // q is that of x^ with q.
  template <class F>
  void for_each_block(const Tables& tables, F f) const {
    int64_t first = 0;
    for (const auto& block : blocks_) {
      f(rotated(block, tables), first);
      first += block.norms.size(1);
    }
  }
  // What the sketch adds to scores: q [H_q, D] fp32 -> [H_q, T]
  at::Tensor sketched_scores(const at::Tensor& q, const Tables& tables) const;
  void add_to(kvc::Footprint& bytes, kvc::CacheTensor tensor) const;

 private:
  struct Block {
    at::Tensor codes, norms;           // [H, t, ceil(D*b/32)] int32, [H, t]
    at::Tensor signs, residual_norms;  // [H, t, ceil(D/32)] int32, [H, t]; undefined without a sketch
  };
  static kvc::LevelCodes rotated(const Block& block, const Tables& tables);
  // x^, and of what is left `back` times the signs, as long as |r| says times `factor`.
  at::Tensor vectors(const Tables& tables, const at::Tensor& back, double factor) const;

  std::vector<Block> blocks_;
  int64_t n_tokens_ = 0;
};

}  // namespace turboquant
