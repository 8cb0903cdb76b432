// Random draws that depend only on what they are for, so that results do not depend on the order of work.
#pragma once

#include <ATen/core/Generator.h>

#include <cstdint>

#include "kvc/check.h"

namespace kvc {

// A CPU generator for one block of one layer of a sequence (LayerInfo::sequence_key). At sequence 0, layer 0, block 0
// it draws what LibTorch draws after manual_seed(seed).
KVC_EXPORT at::Generator keyed_generator(uint64_t seed, uint64_t sequence_key, int64_t layer, int64_t block);

}  // namespace kvc
