// What a compressor's caches hold of a prompt of any length, from caches that are filled.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "contract/measurement.h"
#include "model/transformer.h"
#include "sandbox/memory_meter.h"
#include "worker/likely_tokens.h"

namespace kvc {

struct SizeSettings {
  uint64_t sequence_key = 0;  // names the prompts, as those of samples are named
  std::function<bool(const Compressor&)> may_evict = [](const Compressor&) { return true; };
  double most_seconds = 20;  // of the processor, for a length
};

// For each length in ascending order the caches of all layers, one after the other, each given the same prompt of
// likely tokens. Of one layer, drawn by chance, the answers are audited once its bytes are known, where there is memory
// for its exact K and V. A length beyond the shortest fills, of layers that held the same at the length before, the
// first and the last, and the others only where these two differ; of a composition, whose rules may part only there,
// all. What is thrown, and a length that would take more than most_seconds, is the error of that length and of all
// beyond it. No sequence may be under way.
std::vector<CacheSize> measure_sizes(const std::function<std::unique_ptr<Compressor>()>& build,
                                     const Transformer& model, const LikelyTokens& likely, std::vector<int64_t> lengths,
                                     MemoryMeter& meter, const SizeSettings& settings = {});

}  // namespace kvc
