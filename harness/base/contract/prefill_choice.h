// How prompts reach the caches.
#pragma once

#include <cstdint>

namespace kvc {

struct PrefillChoice {
  int64_t chunk = 0;  // tokens of a prompt that the model reads at once; 0: the whole prompt, with exact attention
  // A chunk attends to itself through the cache too, not only to earlier chunks. A compressor that evicts does so after
  // the chunk has attended to all its own tokens, exactly.
  bool through_all = false;
  bool operator==(const PrefillChoice&) const = default;
};

}  // namespace kvc
