// The cache of a compressor that runs in a process of its own.
#pragma once

#include <memory>

#include "hosted/host_process.h"
#include "kvc/layer_cache.h"
#include "sandbox/memory_meter.h"

namespace kvc {

class Compressor;

// What a host can do besides.
struct HostAbilities {
  bool attends = false;  // attention of its own; else it is the reference's over attended()
  bool steps = false;    // one call for a decode step of many caches
};

// Of the cache that the answer to make_cache tells.
std::unique_ptr<LayerCache> make_hosted_cache(const LayerInfo& info, std::shared_ptr<HostProcess> process,
                                              const Compressor* compressor, HostAbilities abilities,
                                              const HostAnswer& made);

// Of such a cache: its number in the process.
int64_t number_of(const LayerCache& cache);

// Its process, if the cache is hosted and the process takes steps (hosted_steps.h); else null.
std::shared_ptr<HostProcess> process_with_steps(const LayerCache& cache);

// What the cache's sequence, and what all caches of the compressor share, hold in the process, as an answer says it: the
// memory meter then charges it to the accounts that were open when the cache, the compressor was made.
void hold_elsewhere(const LayerCache& cache, const HostAnswer& answer);
void hold_elsewhere(const LayerCache& cache, const MemoryMeter::Held& held, int64_t peak);
void hold_shared_elsewhere(const Compressor* compressor, const HostAnswer& answer);

}  // namespace kvc
