// How the harness calls a plugin: charged to an account of its own, with the state of the process restored afterwards.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kvc/layer_cache.h"
#include "sandbox/host_state.h"
#include "sandbox/ledger.h"
#include "sandbox/memory_meter.h"
#include "sandbox/thrown.h"

namespace kvc {

// After a call. Throws Error if it changed settings of the process, which are restored, or opened a file, a socket or
// the like.
void check_left_behind(const HostState& before, int account);

// inspecting: the harness only asks, so that peaks ignore what it takes; parallel: other plugins run on other threads.
enum class CallMode : uint8_t { plain, inspecting, parallel };

// The error of the sandboxed call that this thread is in, of what cannot throw: a cache's destructor.
void fail_call(std::string error);
std::string take_failure();

// Runs a plugin's code, charged to its account. -> why it failed; or nothing
template <class Body>
std::string sandboxed_call(MemoryMeter& meter, int account, CallMode mode, const Body& body) {
  const HostState before(mode != CallMode::parallel);
  std::string error;
  {
    const auto peaks = mode == CallMode::inspecting ? MemoryMeter::Peaks::ignored : MemoryMeter::Peaks::recorded;
    const MemoryMeter::Scope scope(meter, account, peaks);
    try {
      body();
    } catch (...) {
      error = thrown();
    }
  }
  if (const auto failure = take_failure(); error.empty()) error = failure;
  try {
    check_left_behind(before, account);
  } catch (...) {
    if (error.empty()) error = thrown();
  }
  return error.empty() ? error : std::string(error.begin(), error.end());  // a copy that is not charged to the plugin
}

// Destroys a sequence's caches, which reported `reported` bytes and held `held` before they were asked, and returns their
// account. They may free their tensors and bookkeeping of kBytesACache per cache, kBytesATensor per tensor (LibTorch's
// own is some 300) and 1 % of the reported bytes. What stays allocated may be buffers that a library reuses, which do
// not grow with every sequence. -> what exceeds this; or nothing
constexpr int64_t kBytesACache = 8192, kBytesATensor = 1024;
std::string destroy_caches(MemoryMeter& meter, int account, std::vector<std::unique_ptr<LayerCache>>& caches,
                           const MemoryMeter::Held& held, int64_t reported);
// The same, and before it compares the footprint that the caches report with what the allocator holds for them.
std::string count_and_destroy_caches(MemoryMeter& meter, int account, std::vector<std::unique_ptr<LayerCache>>& caches);

}  // namespace kvc
