// Tokens of prompts that no model has read, distributed as a model's own.
#pragma once

#include <cstdint>

#include "model/transformer.h"

namespace kvc {

// K, V and queries that the model computes for some drawn ids in one of its layers. Further tokens are mixtures of two
// of these each, which keep their mean and covariance; keys and queries are turned to their positions.
class LikelyTokens {
 public:
  explicit LikelyTokens(const Transformer& model);

  // The first n of them from position 0 on, in the model's type on the CPU: which two are mixed follows from the seed.
  NewTokens tokens(int64_t n, uint64_t seed) const;

 private:
  at::Tensor mixed(const at::Tensor& x, bool turns, int64_t n, uint64_t seed) const;

  at::Tensor frequencies_;  // [D/2] fp64; undefined where keys are not turned
  at::Tensor q_, k_, v_;    // [H, n, D] fp32, as they were computed
  at::ScalarType type_ = at::kFloat;
};

}  // namespace kvc
