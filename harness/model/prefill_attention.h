// Exact causal attention of one bucket of a prompt's queries.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace kvc {

// Queries at rows row ... row + kRowBucket - 1 of q, whose positions begin at `first`, over the keys up to their own,
// of which each sees the last `window` (0: all). q [H_q, T_q, D], k and v [H_kv, T, D], of one type, contiguous ->
// [kRowBucket, H_q*D] fp32
at::Tensor attend_bucket(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, int64_t row, int64_t first,
                         int64_t window, double scale);

namespace portable {
// The same by LibTorch's operators: what runs on a GPU, and what the CPU's loops are held against.
at::Tensor attend_bucket(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, int64_t row, int64_t first,
                         int64_t window, double scale);
}  // namespace portable

}  // namespace kvc
