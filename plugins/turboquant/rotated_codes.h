// TurboQuant of vectors x of one head: a norm, and a code for each coordinate of the rotated direction
//   z = R^T x / |x|  (R [D, D]: orthogonal columns of length sqrt(D)),   x^ = |x|/D * R level[code]
// and, with a sketch, the signs and norm of what is left, r = x - x^:
//   x^ + sqrt(pi/2)/D * |r| * S sign(S^T r)  (S [D, D]: N(0, 1) entries), unbiased in <q, .> over S,
// which scores are computed from. It is farther from x than x^ is; nearest, for r of uniform direction, is
//   x^ + |r| * W sign(S^T r),  W as kvc::least_squares_of_signs derives it.
// Rows are computed one by one, so that a token's codes do not depend on those beside it.
#pragma once

#include <kvc/footprint.h>
#include <kvc/quant/compressed_attention.h>
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
at::Tensor rotate(const at::Tensor& x, const Tables& tables);
at::Tensor rotate_back(const at::Tensor& x, const Tables& tables);

// K or V of one layer, all tokens encoded on arrival.
class RotatedCodes {
 public:
  RotatedCodes(const Tables& tables, kvc::Precision precision) : tables_(tables), precision_(precision) {}

  void push_back(const at::Tensor& x);  // [H, t, D]. Throws where a norm is beyond fp16.
  at::Tensor dequantize() const;        // [H, T, D] fp32; undefined without tokens
  at::Tensor attended() const;          // the unbiased one
  int64_t n_tokens() const { return n_tokens_; }
  int64_t n_encoded() const { return n_tokens_; }
  int64_t droppable(int64_t n_tokens) const { return n_tokens; }
  void drop_front(int64_t n_tokens);
  // In the rotated basis, in which the products of x^ and a query are those of its levels and R^T q.
  void score(kvc::CompressedAttention& attention) const;
  void accumulate_v(kvc::CompressedAttention& attention) const;
  void add_to(kvc::Footprint& bytes, kvc::CacheTensor tensor) const;

 private:
  struct Block {
    at::Tensor codes, norms;           // [H, t, ceil(D*b/32)] int32, [H, t]
    at::Tensor signs, residual_norms;  // [H, t, ceil(D/32)] int32, [H, t]; undefined without a sketch
  };
  kvc::LevelCodes rotated(const Block& block) const;  // |x|/D * level[code] of [H, t, D]: x^ before it is rotated back
  template <class F>
  void for_each_block(F f) const {  // f(rotated(block), index of the first token)
    int64_t first = 0;
    for (const auto& block : blocks_) {
      f(rotated(block), first);
      first += block.norms.size(1);
    }
  }
  at::Tensor sketched_scores(const at::Tensor& q) const;  // what the sketch adds to scores: q [H_q, D] fp32 -> [H_q, T]
  // x^, and of what is left `back` times the signs, as long as |r| says times `factor`.
  at::Tensor vectors(const at::Tensor& back, double factor) const;

  const Tables& tables_;  // the compressor's
  kvc::Precision precision_;
  std::vector<Block> blocks_;
  int64_t n_tokens_ = 0;
};

}  // namespace turboquant
