// HQQ's quantizer: min-max scale, and a zero point that is moved to shrink the l_p norm of the error, p = 0.7.
//   scale = min((2^b - 1) / (max - min), 2e4), 1 where max - min <= 1e-4;  zero = -min * scale
//   repeat: c = clamp(rne(x*scale + zero)), e = shrink(x - (c - zero)/scale), zero = mean(c - (x - e)*scale)
//   shrink(d) = sign(d) * max(|d| - |d|^(p-1) / 10, 0)
// until the mean of |x - x^| over all groups no longer falls; the last zero stays.
#pragma once

#include <kvc/quant/group_quant.h>

namespace hqq {

// x^ = (c - zero) / scale
struct Grid {
  at::Tensor scale, zero;  // [1, n_groups, 1] fp32
};
Grid fitted(const at::Tensor& groups, int64_t bits, int64_t iterations);

// groups: [1, n_groups, g] fp32 -> codes with scale' = 1/scale and zero' = -zero/scale, so that x^ = scale' * c +
// zero'.
kvc::GroupCodes quantize(const at::Tensor& groups, int64_t bits, int64_t iterations, kvc::Precision precision);

}  // namespace hqq
