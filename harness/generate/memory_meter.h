// Live and peak bytes of tensors, by who asked for them.
#pragma once

#include <cstdint>
#include <memory>

namespace kvc {

// Sees every tensor allocation of the thread that made it, from construction to destruction, and books it under the
// account that is open on that thread. Other threads are seen while they hold a Scope. A tensor is booked off the
// account it was booked on, whoever frees it while he is seen. One meter a thread.
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
  int64_t live_bytes(int account) const;
  int64_t peak_bytes(int account) const;        // highest live_bytes since the account was reset
  int64_t peak_with_common(int account) const;  // the same of its and the common accounts' sum; account >= kFirstOwn
  void reset(int account);                      // both peaks := live
  int64_t peak_of_all() const;                  // highest sum of all accounts since reset_all
  void reset_all();

  // From here on an allocation that brings all accounts beyond so many bytes is an Error where it is asked for.
  void set_limit(int64_t bytes);
  bool hit_limit() const;  // some allocation did

  // Opens an account on this thread for as long as it lives; accounts are small non-negative numbers.
  class Scope {
   public:
    Scope(MemoryMeter& meter, int account);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
  };

 private:
  struct Books;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The caches' own count against the allocator's: a buffer that a plugin holds and does not report is found here. On a
// GPU the allocator counts whole blocks.
void check_bytes(int64_t reported, int64_t allocated, bool on_cpu);

}  // namespace kvc
