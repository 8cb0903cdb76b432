// What a compressor's caches hold of a prompt of any length, from caches that are filled.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "contract/measurement.h"
#include "model/transformer.h"
#include "sandbox/memory_meter.h"

namespace kvc {

// For each length in ascending order the caches of all layers, one after the other, each given a prompt of normal
// numbers in the model's shape. A length beyond the shortest fills, of layers that held the same at the length before,
// the first and the last, and the others only where these two differ; of a composition, whose rules may part only
// there, all. What is thrown, and a length that would take more than `most_seconds` of the processor, is the error of
// that length and of all beyond it. No sequence may be under way.
std::vector<CacheSize> measure_sizes(const std::function<std::unique_ptr<Compressor>()>& build,
                                     const Transformer& model, std::vector<int64_t> lengths, MemoryMeter& meter,
                                     double most_seconds = 20);

}  // namespace kvc
