#include "generate/memory_meter.h"

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "kvc/check.h"

namespace kvc {

// The allocator reports here whatever the thread's PROFILER_STATE is set to.
struct MemoryMeter::Books final : c10::MemoryReportingInfoBase {
  struct Account {
    int64_t live = 0, peak = 0;
  };
  struct Entry {
    int account;
    int64_t bytes;
  };
  std::vector<Account> accounts = std::vector<Account>(1);
  std::unordered_map<const void*, Entry> entries;
  int open = kModel;

  Account& account(int id) {
    KVC_CHECK(id >= 0, "memory account ", id, ", allowed: 0 and above");
    if (static_cast<size_t>(id) >= accounts.size()) accounts.resize(static_cast<size_t>(id) + 1);
    return accounts[static_cast<size_t>(id)];
  }

  void reportMemoryUsage(void* pointer, int64_t bytes, size_t, size_t, c10::Device device) override {
    if (!device.is_cpu()) return;
    if (bytes > 0) {
      entries[pointer] = {open, bytes};
      auto& a = account(open);
      a.live += bytes;
      a.peak = std::max(a.peak, a.live);
    } else if (const auto entry = entries.find(pointer); entry != entries.end()) {
      account(entry->second.account).live -= entry->second.bytes;
      entries.erase(entry);
    }
  }
  bool memoryProfilingEnabled() const override { return true; }
};

struct MemoryMeter::Impl {
  std::shared_ptr<Books> books = std::make_shared<Books>();  // the guard's interface wants shared ownership
  c10::DebugInfoGuard guard{c10::DebugInfoKind::PROFILER_STATE, books};
};

MemoryMeter::MemoryMeter() : impl_(std::make_unique<Impl>()) {}
MemoryMeter::~MemoryMeter() = default;

int64_t MemoryMeter::live_bytes(int account) const { return impl_->books->account(account).live; }
int64_t MemoryMeter::peak_bytes(int account) const { return impl_->books->account(account).peak; }
void MemoryMeter::reset(int account) {
  auto& a = impl_->books->account(account);
  a.peak = a.live;
}

MemoryMeter::Scope::Scope(MemoryMeter& meter, int account) : meter_(meter), previous_(meter.impl_->books->open) {
  meter_.impl_->books->account(account);
  meter_.impl_->books->open = account;
}
MemoryMeter::Scope::~Scope() { meter_.impl_->books->open = previous_; }

}  // namespace kvc
