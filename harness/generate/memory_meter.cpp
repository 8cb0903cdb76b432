#include "generate/memory_meter.h"

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <limits>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "kvc/check.h"

namespace kvc {

struct MemoryMeter::Books {
  struct Account {
    int64_t live = 0, peak = 0, peak_with_common = 0;
  };
  struct Entry {
    int account;
    int64_t bytes;
  };
  std::mutex mutex;  // guards all below
  std::vector<Account> accounts = std::vector<Account>(kFirstOwn);
  int64_t total = 0, peak_total = 0;
  int64_t limit = std::numeric_limits<int64_t>::max();
  bool hit_limit = false;
  std::unordered_map<const void*, Entry> entries;

  Account& account(int id) {
    KVC_CHECK(id >= 0, "memory account ", id, ", allowed: 0 and above");
    if (static_cast<size_t>(id) >= accounts.size()) accounts.resize(static_cast<size_t>(id) + 1);
    return accounts[static_cast<size_t>(id)];
  }

  void book(const void* pointer, int64_t bytes, int open) {
    const std::lock_guard lock(mutex);
    if (bytes > 0) {
      entries[pointer] = {open, bytes};
      auto& a = account(open);
      a.live += bytes;
      a.peak = std::max(a.peak, a.live);
      total += bytes;
      peak_total = std::max(peak_total, total);
      if (open >= kFirstOwn) note_peak(a);
      for (size_t i = kFirstOwn; open < kFirstOwn && i < accounts.size(); ++i) note_peak(accounts[i]);
      if (total <= limit) return;
      hit_limit = true;
      throw Error(concat("memory limit: ", bytes, " bytes more make ", total, ", allowed: ", limit));
    } else if (const auto entry = entries.find(pointer); entry != entries.end()) {
      account(entry->second.account).live -= entry->second.bytes;
      total -= entry->second.bytes;
      entries.erase(entry);
    }
  }

  int64_t with_common(const Account& a) const { return a.live + accounts[kModel].live + accounts[kPrefix].live; }
  void note_peak(Account& a) { a.peak_with_common = std::max(a.peak_with_common, with_common(a)); }
};

namespace {

// The allocator reports here whatever the thread's PROFILER_STATE is set to: one account's ear.
template <class Books>
struct Ear final : c10::MemoryReportingInfoBase {
  Ear(Books& books, int account) : books(books), account(account) {}
  void reportMemoryUsage(void* pointer, int64_t bytes, size_t, size_t, c10::Device) override {
    books.book(pointer, bytes, account);
  }
  bool memoryProfilingEnabled() const override { return true; }

  Books& books;
  int account;
};

}  // namespace

struct MemoryMeter::Impl {
  explicit Impl(int account) : guard(c10::DebugInfoKind::PROFILER_STATE, ear(account)) {}
  std::shared_ptr<Ear<Books>> ear(int account) { return std::make_shared<Ear<Books>>(books, account); }

  Books books;
  c10::DebugInfoGuard guard;  // the interface wants shared ownership
};

struct MemoryMeter::Scope::Impl {
  c10::DebugInfoGuard guard;
};

MemoryMeter::MemoryMeter() : impl_(std::make_unique<Impl>(kModel)) {}
MemoryMeter::~MemoryMeter() = default;

int64_t MemoryMeter::live_bytes(int account) const {
  const std::lock_guard lock(impl_->books.mutex);
  return impl_->books.account(account).live;
}
int64_t MemoryMeter::peak_bytes(int account) const {
  const std::lock_guard lock(impl_->books.mutex);
  return impl_->books.account(account).peak;
}
int64_t MemoryMeter::peak_with_common(int account) const {
  KVC_CHECK(account >= kFirstOwn, "memory account ", account, ", allowed: ", kFirstOwn, " and above");
  const std::lock_guard lock(impl_->books.mutex);
  return impl_->books.account(account).peak_with_common;
}
void MemoryMeter::reset(int account) {
  const std::lock_guard lock(impl_->books.mutex);
  auto& a = impl_->books.account(account);
  a.peak = a.live;
  a.peak_with_common = impl_->books.with_common(a);
}
int64_t MemoryMeter::peak_of_all() const {
  const std::lock_guard lock(impl_->books.mutex);
  return impl_->books.peak_total;
}
void MemoryMeter::reset_all() {
  const std::lock_guard lock(impl_->books.mutex);
  impl_->books.peak_total = impl_->books.total;
}
void MemoryMeter::set_limit(int64_t bytes) {
  const std::lock_guard lock(impl_->books.mutex);
  impl_->books.limit = bytes;
}
bool MemoryMeter::hit_limit() const {
  const std::lock_guard lock(impl_->books.mutex);
  return impl_->books.hit_limit;
}

void check_bytes(int64_t reported, int64_t allocated, bool on_cpu) {
  KVC_CHECK(on_cpu ? reported == allocated : reported <= allocated, "the caches report ", reported, " bytes, but hold ",
            allocated, " bytes of tensors: footprint() must count every buffer, once");
}

MemoryMeter::Scope::Scope(MemoryMeter& meter, int account)
    : impl_(new Impl{c10::DebugInfoGuard(c10::DebugInfoKind::PROFILER_STATE, meter.impl_->ear(account))}) {}
MemoryMeter::Scope::~Scope() = default;

}  // namespace kvc
