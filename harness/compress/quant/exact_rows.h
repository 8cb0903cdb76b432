// One head of exact tokens against the query heads that read it.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "kernels/row_products.h"
#include "kvc/check.h"
#include "kvc/quant/token_blocks.h"

namespace kvc {

// The rows of n_q query heads, in the order that blocks of such a type are read in.
class InterleavedQueries {
 public:
  // q [n_q, D], contiguous
  InterleavedQueries(const float* q, int64_t n_q, int64_t head_dim, at::ScalarType type)
      : rows_(static_cast<size_t>(n_q * (head_dim + 64))) {
    const int64_t block = 64 / static_cast<int64_t>(c10::elementSize(type));
    const int64_t padded = (head_dim + block - 1) / block * block;
    for (int64_t i = 0; i < n_q; ++i) {
      kernels::interleave(q + i * head_dim, head_dim, block, rows_.data() + i * padded);
    }
  }
  const float* data() const { return rows_.data(); }

 private:
  std::vector<float> rows_;
};

// f(rows [n, D] of head h in x [H, n, D])
template <class F>
void with_rows(const at::Tensor& x, int64_t h, F f) {
  const int64_t offset = h * x.size(1) * x.size(2);
  switch (x.scalar_type()) {
    case at::kFloat:
      return f(x.const_data_ptr<float>() + offset);
    case at::kHalf:
      return f(static_cast<const kernels::Fp16*>(x.const_data_ptr()) + offset);
    case at::kBFloat16:
      return f(static_cast<const kernels::Bf16*>(x.const_data_ptr()) + offset);
    default:
      throw Error(concat("attend: uncompressed tokens of type ", x.scalar_type()));
  }
}

// f(rows [n, D] of head h in this block, n, first token) for each block.
template <class F>
void for_each_rows(const TokenBlocks& x, int64_t h, F f) {
  int64_t first = 0;
  for (const auto& block : x.blocks()) {
    const int64_t n = block.size(1);
    with_rows(block, h, [&](const auto* rows) { f(rows, n, first); });
    first += n;
  }
}

}  // namespace kvc
