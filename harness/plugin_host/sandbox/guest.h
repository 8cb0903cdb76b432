// How the harness calls a plugin: on an account of its own, and with the process as it was before.
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

// What the call left behind, besides what it allocated, throws: settings of the process that it changed (put back by
// now), files and the like that it opened.
void check_left_behind(const HostState& before, int account);

// How a guest is called: looking, see MemoryMeter; beside, while other plugins run on other threads.
enum class Visit : uint8_t { plain, looking, beside };

// Runs a plugin's code on its account. -> why it failed; or nothing
template <class Body>
std::string as_guest(MemoryMeter& meter, int account, Visit visit, const Body& body) {
  const HostState before(visit != Visit::beside);
  std::string error;
  {
    const auto peaks = visit == Visit::looking ? MemoryMeter::Peaks::looking : MemoryMeter::Peaks::noted;
    const MemoryMeter::Scope scope(meter, account, peaks);
    try {
      body();
    } catch (...) {
      error = thrown();
    }
  }
  try {
    check_left_behind(before, account);
  } catch (...) {
    if (error.empty()) error = thrown();
  }
  return error.empty() ? error : std::string(error.begin(), error.end());  // not of what the guest gained
}

// Destroys a sequence's caches, which report so many bytes and held `held` before they were asked, and returns their
// account. What they give back may be their tensors and what bookkeeping takes: kBytesACache, kBytesATensor (LibTorch's
// own are some 300) and a hundredth of what they report. What stays may be buffers that a library keeps for the next
// caller; those do not grow with every sequence. -> what does not fit; or nothing
constexpr int64_t kBytesACache = 8192, kBytesATensor = 1024;
std::string let_go(MemoryMeter& meter, int account, std::vector<std::unique_ptr<LayerCache>>& caches,
                   const MemoryMeter::Held& held, int64_t reported);
// The same of caches that are to report here and now: their count is held against the allocator's.
std::string count_and_let_go(MemoryMeter& meter, int account, std::vector<std::unique_ptr<LayerCache>>& caches);

}  // namespace kvc
