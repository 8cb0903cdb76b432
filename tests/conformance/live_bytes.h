// Bytes of tensors allocated on this thread while it lives, and not yet freed: exact for CPU tensors.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <memory>
#include <unordered_map>

namespace kvc::conformance {

class LiveBytes {
 public:
  int64_t bytes() const { return ledger_->live; }

 private:
  struct Ledger final : c10::MemoryReportingInfoBase {
    void reportMemoryUsage(void* pointer, int64_t size, size_t, size_t, c10::Device) override {
      if (size > 0) {
        held[pointer] = size;
        live += size;
      } else if (const auto at = held.find(pointer); at != held.end()) {  // others were there before us
        live -= at->second;
        held.erase(at);
      }
    }
    bool memoryProfilingEnabled() const override { return true; }
    std::unordered_map<void*, int64_t> held;
    int64_t live = 0;
  };

  std::shared_ptr<Ledger> ledger_ = std::make_shared<Ledger>();
  c10::DebugInfoGuard guard_{c10::DebugInfoKind::PROFILER_STATE, ledger_};
};

}  // namespace kvc::conformance
