// Tokens that are drawn, where no model runs.
#pragma once

#include <ATen/core/Generator.h>

#include "kvc/compressor.h"

namespace kvc {

// Of one layer, from position 0 on: normal numbers in fp32, on the CPU; Q's come first, then K's and V's.
NewTokens normal_tokens(const ModelShape& model, int64_t n_tokens, at::Generator& generator);

}  // namespace kvc
