// Live and peak bytes of tensors, by account.
#pragma once

#include <cstdint>
#include <memory>

#include "kvc/footprint.h"

namespace kvc {

// Charges every tensor that its thread allocates, from construction to destruction of the meter, to the account that is
// open on that thread; what the thread's OpenMP team allocates, to the account that the thread has open then. Other
// threads are metered while they hold a Scope. A freed tensor is released from the account that it was charged to,
// whatever thread frees it and when; a tensor on a device only if a metered thread frees it. One meter per thread. The
// first one replaces LibTorch's CPU allocator: 64 bytes before each tensor name its account.
class MemoryMeter {
 public:
  MemoryMeter();
  ~MemoryMeter();
  MemoryMeter(const MemoryMeter&) = delete;
  MemoryMeter& operator=(const MemoryMeter&) = delete;

  // The common accounts: what all sequences need.
  static constexpr int kModel = 0;   // weights and the forward pass
  static constexpr int kPrefix = 1;  // what prompts share
  static constexpr int kFirstOwn = 2;
  static constexpr int kUnseen = -1;  // allocations under it are not charged: the harness's own copies
  int take_account();                 // one that holds nothing
  // Makes the account available to take_account(), once nothing is charged to it. -> what ended sequences of the same
  // compressor have left allocated, in all, and the most that one left
  struct Left {
    int64_t bytes = 0, largest = 0, in_tensors = 0;
  };
  Left return_account(int account);
  int64_t live_bytes(int account) const;
  int64_t peak_bytes(int account) const;        // highest live_bytes since the account was reset
  int64_t peak_with_common(int account) const;  // the same of its and the common accounts' sum; account >= kFirstOwn
  void reset(int account);                      // both peaks := live
  int64_t peak_of_all() const;                  // highest sum of all accounts since reset_all
  void reset_all();

  // From here on an allocation that brings all accounts beyond so many bytes is an Error where it is asked for.
  void set_limit(int64_t bytes);
  bool hit_limit() const;  // some allocation did

  // What an account holds now.
  struct Held {
    int64_t tensors = 0, n_tensors = 0;
    int64_t beside_tensors = 0;  // of all that the system gave (ledger.h): vectors, mappings, LibTorch's bookkeeping
  };
  Held held_bytes(int account) const;

  // What `holder`, another process, holds for the account from here on, in the place of what was said of it before; peak:
  // the most that it held at once. Of the thread's meter; nothing where it has none, and for kUnseen.
  static void hold_elsewhere(int account, const void* holder, const Held& held, int64_t peak);
  static void hold_shared_elsewhere(const void* owner, const Held& held);  // for all caches of a compressor
  // For all accounts: tensors, what is kept for each outside it, and what the allocator adds to each.
  static constexpr int64_t kAllocatorBytesATensor = 384;
  static int64_t held_by(const void* holder);
  static int open_account();    // on this thread; kUnseen where there is no meter
  static bool ignores_peaks();  // the account is open only to inspect

  // The account of what all caches of a compressor share: that of `owner`, which is made where it has none. What is
  // made in a kvc::Shared while `account` is open is charged to it.
  int shared_account(const void* owner);
  void set_shared_account(const void* owner, int account);
  void share(int account, const void* owner);

  // Opens an account on this thread for as long as it lives, here and in the ledger; accounts are small numbers.
  // Peaks::ignored: for what the harness asks of a cache only to inspect it.
  enum class Peaks { recorded, ignored };
  class Scope {
   public:
    Scope(MemoryMeter& meter, int account, Peaks peaks = Peaks::recorded);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    static void* enter_shared();
    static void leave_shared(void* entered);

    struct Impl;
    std::unique_ptr<Impl> impl_;
  };

 private:
  struct Charges;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The caches' own count against the allocator's: a buffer that a plugin holds and does not report is found here.
void check_bytes(const Footprint& reported, const MemoryMeter::Held& held);

}  // namespace kvc
