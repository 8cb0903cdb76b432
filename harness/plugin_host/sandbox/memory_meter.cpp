#include "sandbox/memory_meter.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <map>
#include <mutex>
#include <new>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kvc/check.h"
#include "kvc/shared.h"
#include "sandbox/ledger.h"

namespace kvc {

struct MemoryMeter::Charges {
  struct Account {
    int64_t live = 0, n_tensors = 0, peak = 0, peak_with_common = 0;
    int64_t not_here = 0;             // of live: on devices and in other processes
    int64_t beside_tensors_else = 0;  // in other processes
  };
  struct Entry {
    int account;
    int64_t bytes;
  };
  std::mutex mutex;     // guards all below
  bool closed = false;  // the meter is gone; what is left goes with its last tensor
  int64_t n_labels = 0;
  std::vector<Account> accounts = std::vector<Account>(kFirstOwn);
  int64_t total = 0, peak_total = 0;
  int64_t limit = std::numeric_limits<int64_t>::max();
  bool hit_limit = false;
  std::unordered_map<const void*, Entry> entries;         // on devices: what their allocators report
  std::map<std::pair<int, const void*>, Held> elsewhere;  // by account and process
  std::unordered_map<const void*, int> of_owners;         // shared accounts
  std::unordered_map<int, int> shared;                    // by the account that is open while they grow
  std::vector<int> returned;                              // free to take
  std::unordered_map<int, std::vector<int>> unreturned;   // by shared account: hold something still
  std::unordered_map<int, int64_t> largest_left;          // by shared account: by one sequence
  int next_account = kFirstOwn;

  Account& account(int id) {
    KVC_CHECK(id >= 0, "memory account ", id, ", allowed: 0 and above");
    if (static_cast<size_t>(id) >= accounts.size()) accounts.resize(static_cast<size_t>(id) + 1);
    return accounts[static_cast<size_t>(id)];
  }

  void add(int64_t bytes, int open, Peaks peaks) {
    auto& a = account(open);
    a.live += bytes;
    ++a.n_tensors;
    total += bytes;
    if (peaks == Peaks::ignored) return;
    a.peak = std::max(a.peak, a.live);
    peak_total = std::max(peak_total, total);
    if (open >= kFirstOwn) note_peak(a);
    for (size_t i = kFirstOwn; open < kFirstOwn && i < accounts.size(); ++i) note_peak(accounts[i]);
    if (total <= limit) return;
    hit_limit = true;
    take_off({open, bytes});
    throw Error(concat("memory limit: ", bytes, " bytes more make ", total + bytes, ", allowed: ", limit));
  }
  void take_off(const Entry& entry) {
    auto& a = account(entry.account);
    a.live -= entry.bytes;
    --a.n_tensors;
    total -= entry.bytes;
  }

  // Of a device: bytes below 0 are given back.
  void charge(const void* pointer, int64_t bytes, int open, Peaks peaks) {
    const std::lock_guard lock(mutex);
    // Given back, now or, where it is given out again, by a thread that is not metered.
    if (const auto entry = entries.find(pointer); entry != entries.end()) {
      take_off(entry->second);
      account(entry->second.account).not_here -= entry->second.bytes;
      entries.erase(entry);
    }
    if (bytes <= 0 || open == kUnseen) return;
    add(bytes, open, peaks);
    account(open).not_here += bytes;
    entries[pointer] = {open, bytes};
  }

  void hold_elsewhere(int id, const void* holder, const Held& held, int64_t most) {
    auto& a = account(id);
    auto& before = elsewhere[{id, holder}];
    a.live += held.tensors - before.tensors, a.not_here += held.tensors - before.tensors;
    a.n_tensors += held.n_tensors - before.n_tensors;
    a.beside_tensors_else += held.beside_tensors - before.beside_tensors;
    total += held.tensors - before.tensors;
    before = held;
    const int64_t above = std::max<int64_t>(0, most - held.tensors);
    a.peak = std::max(a.peak, a.live + above);
    a.peak_with_common = std::max(a.peak_with_common, with_common(a) + above);
    peak_total = std::max(peak_total, total + above);
  }
  void forget_elsewhere(int id) {
    const auto [first, last] =
        std::pair(elsewhere.lower_bound({id, nullptr}), elsewhere.lower_bound({id + 1, nullptr}));
    elsewhere.erase(first, last);
    account(id).beside_tensors_else = 0;
  }

  int64_t with_common(const Account& a) const { return a.live + accounts[kModel].live + accounts[kPrefix].live; }
  void note_peak(Account& a) { a.peak_with_common = std::max(a.peak_with_common, with_common(a)); }
};

namespace {

constexpr int64_t kForgiven = 1 << 16;  // of a sequence that has ended: small objects that are freed later or never

// What a thread's allocations are charged to.
template <class Charges>
struct Opened {
  Charges* charges = nullptr;
  int account = 0;
  MemoryMeter::Peaks peaks = MemoryMeter::Peaks::recorded;
};

// LibTorch's tensors on the CPU: a label before each names its account, so that freeing needs no search.
template <class Charges>
class LabellingAllocator final : public c10::Allocator {
 public:
  static constinit inline thread_local Opened<Charges> opened = {};

  // Of this thread, or where none are, those that the master of its OpenMP team has open.
  static const Opened<Charges>& now() {
    if (opened.charges) return opened;
    const auto* masters = static_cast<const Opened<Charges>*>(ledger::shown_by_master());
    return masters ? *masters : opened;
  }

  c10::DataPtr allocate(size_t n) override {
    if (n == 0) return {nullptr, nullptr, &give_back, c10::kCPU};
    void* memory = nullptr;
    if (::posix_memalign(&memory, kAlignment, n + sizeof(Label)) != 0) throw std::bad_alloc();
    const auto& open = now();
    auto* label = new (memory) Label{nullptr, {open.account, static_cast<int64_t>(n)}};
    if (open.charges && open.account != MemoryMeter::kUnseen) {
      try {
        const std::lock_guard lock(open.charges->mutex);
        open.charges->add(label->entry.bytes, open.account, open.peaks);
        ++open.charges->n_labels;
      } catch (...) {
        std::free(memory);
        throw;
      }
      label->charges = open.charges;
    }
    return {label + 1, label + 1, &give_back, c10::kCPU};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &give_back; }
  void copy_data(void* to, const void* from, size_t n) const override { default_copy_data(to, from, n); }

  static void close(Charges* charges) {
    std::unique_lock lock(charges->mutex);
    charges->closed = true;
    delete_if_last(charges, lock);
  }

 private:
  static constexpr size_t kAlignment = 64;  // as LibTorch aligns
  struct alignas(kAlignment) Label {
    Charges* charges;
    typename Charges::Entry entry;
  };

  static void give_back(void* tensor) {
    if (!tensor) return;
    auto* label = static_cast<Label*>(tensor) - 1;
    if (auto* charges = label->charges) {
      std::unique_lock lock(charges->mutex);
      charges->take_off(label->entry);
      --charges->n_labels;
      delete_if_last(charges, lock);
    }
    std::free(label);
  }
  static void delete_if_last(Charges* charges, std::unique_lock<std::mutex>& lock) {
    const bool last = charges->closed && charges->n_labels == 0;
    lock.unlock();
    if (last) delete charges;
  }
};

template <class Charges>
void see_tensors() {
  static LabellingAllocator<Charges> allocator;
  [[maybe_unused]] static const bool set = (c10::SetCPUAllocator(&allocator, /*priority=*/1), true);
}

// What a device's allocator reports to, as the thread's PROFILER_STATE; one per account.
template <class Charges>
struct Ear final : c10::MemoryReportingInfoBase {
  Ear(Charges& charges, int account, MemoryMeter::Peaks peaks) : charges(charges), account(account), peaks(peaks) {}
  void reportMemoryUsage(void* pointer, int64_t bytes, size_t, size_t, c10::Device) override {
    const ledger::Scope nobody(ledger::kNobody);  // the map's own memory
    charges.charge(pointer, bytes, account, peaks);
  }
  bool memoryProfilingEnabled() const override { return true; }

  Charges& charges;
  int account;
  MemoryMeter::Peaks peaks;
};

}  // namespace

struct MemoryMeter::Impl {
  using Allocator = LabellingAllocator<Charges>;

  explicit Impl(int account)
      : guard(c10::DebugInfoKind::PROFILER_STATE, ear(account, Peaks::recorded)),
        outer(std::exchange(Allocator::opened, {&charges, account, Peaks::recorded})) {
    see_tensors<Charges>();
    ledger::show_team(&Allocator::opened);
  }
  ~Impl() {
    if (!outer.charges) ledger::show_team(nullptr);
    Allocator::opened = outer;
    Allocator::close(&charges);
  }
  std::shared_ptr<Ear<Charges>> ear(int account, Peaks peaks) {
    return std::make_shared<Ear<Charges>>(charges, account, peaks);
  }

  Charges& charges = *new Charges;  // deleted with the last tensor charged to it
  c10::DebugInfoGuard guard;        // the interface wants shared ownership
  Opened<Charges> outer;
};

struct MemoryMeter::Scope::Impl {
  Impl(Scope& scope, MemoryMeter& meter, int account, Peaks peaks)
      : meter(meter),
        account(account),
        guard(c10::DebugInfoKind::PROFILER_STATE, meter.impl_->ear(account, peaks)),
        opened(std::exchange(LabellingAllocator<Charges>::opened, {&meter.impl_->charges, account, peaks})),
        outer(std::exchange(innermost, &scope)),
        ledger(account < kFirstOwn ? ledger::kNobody : account) {}
  ~Impl() {
    innermost = outer;
    LabellingAllocator<Charges>::opened = opened;
  }

  // The scope that a kvc::Shared on this thread would enter.
  static constinit inline thread_local Scope* innermost = nullptr;

  MemoryMeter& meter;
  int account;
  c10::DebugInfoGuard guard;
  Opened<Charges> opened;
  Scope* outer;
  ledger::Scope ledger;
};

MemoryMeter::MemoryMeter() : impl_(std::make_unique<Impl>(kModel)) {}
MemoryMeter::~MemoryMeter() = default;

int64_t MemoryMeter::live_bytes(int account) const {
  const std::lock_guard lock(impl_->charges.mutex);
  return impl_->charges.account(account).live;
}
int64_t MemoryMeter::peak_bytes(int account) const {
  const std::lock_guard lock(impl_->charges.mutex);
  return impl_->charges.account(account).peak;
}
int64_t MemoryMeter::peak_with_common(int account) const {
  KVC_CHECK(account >= kFirstOwn, "memory account ", account, ", allowed: ", kFirstOwn, " and above");
  const std::lock_guard lock(impl_->charges.mutex);
  return impl_->charges.account(account).peak_with_common;
}
void MemoryMeter::reset(int account) {
  const std::lock_guard lock(impl_->charges.mutex);
  auto& a = impl_->charges.account(account);
  a.peak = a.live;
  a.peak_with_common = impl_->charges.with_common(a);
}
int64_t MemoryMeter::peak_of_all() const {
  const std::lock_guard lock(impl_->charges.mutex);
  return impl_->charges.peak_total;
}
void MemoryMeter::reset_all() {
  const std::lock_guard lock(impl_->charges.mutex);
  impl_->charges.peak_total = impl_->charges.total;
}
void MemoryMeter::set_limit(int64_t bytes) {
  const std::lock_guard lock(impl_->charges.mutex);
  impl_->charges.limit = bytes;
}
bool MemoryMeter::hit_limit() const {
  const std::lock_guard lock(impl_->charges.mutex);
  return impl_->charges.hit_limit;
}

MemoryMeter::Held MemoryMeter::held_bytes(int account) const {
  const std::lock_guard lock(impl_->charges.mutex);
  const auto& a = impl_->charges.account(account);
  const int64_t here = ledger::is_kept() ? ledger::live_bytes(account) - (a.live - a.not_here) : 0;
  return {a.live, a.n_tensors, here + a.beside_tensors_else};
}

void check_bytes(const Footprint& reported, const MemoryMeter::Held& held) {
  const auto [least, most] = reported.allocated();
  KVC_CHECK(least <= held.tensors && held.tensors <= most, "the caches report ", reported.total_bytes(),
            " bytes, but allocated ", held.tensors, " bytes of tensors: footprint() must count every buffer, once",
            least == reported.total_bytes() ? "" : concat(" (in the allocator's blocks ", least, " to ", most, ")"));
}

int MemoryMeter::take_account() {
  const std::lock_guard lock(impl_->charges.mutex);
  auto& returned = impl_->charges.returned;
  if (returned.empty()) return impl_->charges.next_account++;
  const int account = returned.back();
  returned.pop_back();
  return account;
}
MemoryMeter::Left MemoryMeter::return_account(int account) {
  auto& charges = impl_->charges;
  int shared = 0;
  {
    const std::lock_guard lock(charges.mutex);
    shared = charges.shared.contains(account) ? charges.shared.at(account) : kModel;
    charges.unreturned[shared].push_back(account);
  }
  int64_t bytes = 0, in_tensors = 0;
  std::erase_if(charges.unreturned[shared], [&](int each) {
    const auto held = held_bytes(each);
    bytes += held.tensors + held.beside_tensors, in_tensors += held.tensors;
    if (each == account) {
      auto& largest = charges.largest_left[shared];
      largest = std::max(largest, held.tensors + held.beside_tensors);
    }
    if (held.tensors != 0 || std::abs(held.beside_tensors) > kForgiven) return false;
    ledger::forgive(each);
    charges.forget_elsewhere(each);
    reset(each);
    charges.returned.push_back(each);
    return true;
  });
  return {bytes, charges.largest_left[shared], in_tensors};
}

int MemoryMeter::shared_account(const void* owner) {
  const std::lock_guard lock(impl_->charges.mutex);
  const auto [found, is_new] = impl_->charges.of_owners.try_emplace(owner, impl_->charges.next_account);
  if (is_new) ++impl_->charges.next_account;
  return found->second;
}
void MemoryMeter::set_shared_account(const void* owner, int account) {
  const std::lock_guard lock(impl_->charges.mutex);
  impl_->charges.of_owners[owner] = account;
}
void MemoryMeter::share(int account, const void* owner) {
  const int shared = shared_account(owner);
  const std::lock_guard lock(impl_->charges.mutex);
  impl_->charges.shared[account] = shared;
}

int64_t MemoryMeter::held_by(const void* holder) {
  auto* charges = LabellingAllocator<Charges>::opened.charges;
  if (!charges) return 0;
  const std::lock_guard lock(charges->mutex);
  int64_t bytes = 0;
  for (const auto& [of, held] : charges->elsewhere) {
    if (of.second != holder) continue;
    bytes += held.tensors + held.beside_tensors + kAllocatorBytesATensor * held.n_tensors;
  }
  return bytes;
}
int MemoryMeter::open_account() {
  const auto& opened = LabellingAllocator<Charges>::opened;
  return opened.charges ? opened.account : kUnseen;
}
bool MemoryMeter::ignores_peaks() { return LabellingAllocator<Charges>::opened.peaks == Peaks::ignored; }

void MemoryMeter::hold_elsewhere(int account, const void* holder, const Held& held, int64_t peak) {
  auto* charges = LabellingAllocator<Charges>::opened.charges;
  if (!charges || account < 0) return;
  const ledger::Scope nobody(ledger::kNobody);  // the map's own memory
  const std::lock_guard lock(charges->mutex);
  charges->hold_elsewhere(account, holder, held, peak);
}
void MemoryMeter::hold_shared_elsewhere(const void* owner, const Held& held) {
  auto* charges = LabellingAllocator<Charges>::opened.charges;
  if (!charges) return;
  const ledger::Scope nobody(ledger::kNobody);
  const std::lock_guard lock(charges->mutex);
  if (const auto found = charges->of_owners.find(owner); found != charges->of_owners.end()) {
    charges->hold_elsewhere(found->second, owner, held, held.tensors);
  }
}

MemoryMeter::Scope::Scope(MemoryMeter& meter, int account, Peaks peaks) {
  [[maybe_unused]] static const bool hooked = (Shared::set_hooks({&Scope::enter_shared, &Scope::leave_shared}), true);
  impl_ = std::make_unique<Impl>(*this, meter, account, peaks);
}
MemoryMeter::Scope::~Scope() = default;

void* MemoryMeter::Scope::enter_shared() {
  if (!Impl::innermost) return nullptr;
  auto& outer = *Impl::innermost->impl_;
  int account = kModel;
  {
    auto& charges = outer.meter.impl_->charges;
    const std::lock_guard lock(charges.mutex);
    if (const auto found = charges.shared.find(outer.account); found != charges.shared.end()) account = found->second;
  }
  return new Scope(outer.meter, account);
}
void MemoryMeter::Scope::leave_shared(void* entered) { delete static_cast<Scope*>(entered); }

}  // namespace kvc
