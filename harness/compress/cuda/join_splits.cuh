// join_splits: what splits of attend_codes have summed, and attention to a sequence's other tokens -> outputs.
//
// Reads     4 bytes a number of each split, of up to 32 splits a segment
// Grid      (query heads, sequences), head_dim threads; the table of sequences is a parameter
// Order     splits as they stand, then the other tokens, so that the same cache gives the same bits. What has a norm of
//           0 is left out; a sequence without any visible token gives zeros. Where the other norms are of all tokens,
//           their sum is what all is divided by
#pragma once

#include "cuda/attend_codes.cuh"

namespace kvc::KVC_DEVICE {

struct JoinArgument {
  gmem_ptr<const float> sums;    // [H_q, n_parts, D]
  gmem_ptr<const float2> norms;  // [H_q, n_parts]
  gmem_ptr<const float> other_out;
  gmem_ptr<const float2> other_norms;
  gmem_ptr<const float> sinks;
  gmem_ptr<float> out;
  gmem_ptr<float2> to_norms;
  int n_parts;
  bool norms_of_all;
};

struct Joins {
  JoinArgument of[kSegmentsPerLaunch];
};

__global__ void join_splits(const __grid_constant__ Joins joins) {
  const JoinArgument& a = joins.of[blockIdx.y];
  const int head = blockIdx.x, dim = blockDim.x;
  const int64_t first = static_cast<int64_t>(head) * a.n_parts, at = static_cast<int64_t>(head) * dim + threadIdx.x;
  float2 other = make_float2(kNothing, 0.0f);
  if (a.other_norms) {
    other = a.other_norms[head];
  } else if (a.sinks) {
    other = make_float2(a.sinks[head], 1.0f);
  }
  float largest = other.y > 0.0f ? other.x * kLog2E : kNothing;
  for (int i = 0; i < a.n_parts; ++i) {
    const float2 norm = a.norms[first + i];
    if (norm.y > 0.0f) largest = fmaxf(largest, norm.x);
  }
  float sum = 0.0f, total = 0.0f;
  for (int i = 0; i < a.n_parts; ++i) {
    const float2 norm = a.norms[first + i];
    if (!(norm.y > 0.0f)) continue;
    const float weight = exp2_approx(norm.x - largest), part = a.sums[(first + i) * dim + threadIdx.x];
    total = fmaf(weight, norm.y, total);
    sum = fmaf(weight, part, sum);
  }
  if (other.y > 0.0f) {
    const float weight = exp2_approx(fmaf(other.x, kLog2E, -largest)) * other.y,
                part = a.other_norms ? a.other_out[at] : 0.0f;
    total = a.norms_of_all ? weight : total + weight;
    sum = fmaf(weight, part, sum);
  }
  a.out[at] = total > 0.0f ? sum / total : 0.0f;
  if (a.to_norms && threadIdx.x == 0) a.to_norms[head] = make_float2(largest / kLog2E, total);
}

}  // namespace kvc::KVC_DEVICE
