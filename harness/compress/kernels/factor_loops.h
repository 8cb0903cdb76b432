// The loops over the long factor of a low-rank part, for one kind of machine. A rank that divides 16 puts some tokens
// into a vector; another goes entry by entry.
#pragma once

#include "kernels/machine_lanes.h"

namespace kvc::kernels::KVC_MACHINE {

inline void score_factors(const Factors& a, const float* down, float* scores) {
  const int64_t r = a.rank;
  Floats repeated;
  for (int64_t l = 0; l < kLanes; ++l) repeated[l] = down[l % r];
  for (int64_t first = 0; first < a.n_tokens; first += kLanes) {
    Floats parts[kLanes];
    for (int64_t p = 0; p < r; ++p) {
      const int64_t at = first * r + p * kLanes;
      parts[p] = at < a.entries.n ? numbers_at(a.entries, at) * repeated : Floats{};
    }
    add_lanes(folded(parts, r), std::min(kLanes, a.n_tokens - first), scores + first);
  }
}

inline void accumulate_factors(const Factors& a, const float* weights, float* down) {
  const int64_t r = a.rank;
  const Ints over = lanes_over(r);
  Floats sum = {};
  for (int64_t first = 0; first < a.n_tokens; first += kLanes) {
    const Floats w = floats_at(weights, first, a.n_tokens);
    for (int64_t p = 0; p < r; ++p) {
      const int64_t at = first * r + p * kLanes;
      if (at >= a.entries.n) break;
      sum += pick(w, over + static_cast<int32_t>(p * kLanes / r)) * numbers_at(a.entries, at);
    }
  }
  for (int64_t l = 0; l < kLanes; ++l) down[l % r] += sum[l];
}

}  // namespace kvc::kernels::KVC_MACHINE
