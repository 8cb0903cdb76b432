// The size of a made prompt's caches against those of samples.
#pragma once

#include <vector>

#include "contract/measurement.h"
#include "store/result_store.h"

namespace kvc {

// Throws Error where the size's encoded values take far fewer bytes than those of the samples, carried on to as many: a
// line through them, where their numbers of encoded values differ enough for one, else their bytes for each. What is
// spent once for a sequence weighs less in a longer one, so a line may be missed by some, and without one by more.
// Without samples that encode anything there is nothing to compare with.
void check_size(const CacheSize& size, const std::vector<ResultStore::EncodedBytes>& samples);

}  // namespace kvc
