// The tokens that each KV head keeps: the same number for every head, but different ones.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "kvc/check.h"

namespace kvc {

// The rows of x [H, n, X] given for each head by index [H, m] (int64 on x's device, ascending), followed by n_more
// uninitialized rows -> [H, m + n_more, X]
KVC_EXPORT at::Tensor keep_rows(const at::Tensor& x, const at::Tensor& index, int64_t n_more = 0);

// The same into rows [H, m + n_more, X] on the CPU, contiguous like x; they may be x's own.
KVC_EXPORT void keep_rows_into(const at::Tensor& x, const at::Tensor& index, at::Tensor& rows);

// The `heavy` highest of the first T - recent columns of scores [H, T], then the last `recent`; ties go to the older
// token, on every device. -> [H, min(T, heavy + recent)] int64 on the scores' device, ascending
KVC_EXPORT at::Tensor heaviest_and_recent(const at::Tensor& scores, int64_t heavy, int64_t recent);

}  // namespace kvc
