// Which tokens each KV head keeps of those it has seen: every head as many, but not the same ones.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "kvc/check.h"

namespace kvc {

// Rows of x [H, n, X]: of head h those that index [H, m] names, int64 on x's device, ascending; then n_more rows left
// unwritten -> [H, m + n_more, X]
KVC_EXPORT at::Tensor keep_rows(const at::Tensor& x, const at::Tensor& index, int64_t n_more = 0);

// The same into rows [H, m + n_more, X] on the CPU, contiguous like x; they may be x's own.
KVC_EXPORT void keep_rows_into(const at::Tensor& x, const at::Tensor& index, at::Tensor& rows);

// The `heavy` highest of the first T - recent columns of scores [H, T], then the last `recent`; equal scores: the older
// token stays, on the CPU and on any device. -> [H, min(T, heavy + recent)] int64 on the scores' device, ascending
KVC_EXPORT at::Tensor heaviest_and_recent(const at::Tensor& scores, int64_t heavy, int64_t recent);

}  // namespace kvc
