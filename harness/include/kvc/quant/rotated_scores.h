// Scores of keys that are stored before RoPE, as codes with one scale and zero per channel: the query is rotated back
// by each token's position, so that no key needs to be decoded or rotated.
//   k^_tj = zero_j + scale_j levels[code_tj],   score_t = <q, R(position_t) k^_t>
// The loop is in kernels/rotated_products.h; accumulation is fp32, angles are fp64.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>

#include "kvc/quant/code_book.h"

namespace kvc {

class KVC_EXPORT RotatedScores {
 public:
  // Whether this is supported: codes of 2 or 4 bits, head_dim even, up to 1024, rows of whole words.
  static bool takes(int64_t bits, int64_t head_dim);

  // q: [H_q, D] fp32, on the CPU; scale, zero: [H_kv * D] fp32; frequencies: [D/2], RoPE rotates channels i and i + D/2
  // by position * frequencies[i]. position: of the first token.
  RotatedScores(const at::Tensor& q, const CodeBook& book, const at::Tensor& scale, const at::Tensor& zero,
                std::span<const float> frequencies, int64_t position);
  ~RotatedScores();

  // codes: [H_kv, n, D * bits / 32] int32, of the next n tokens -> their scores [H_q, n] fp32. Parallel over heads.
  at::Tensor next(const at::Tensor& codes);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kvc
