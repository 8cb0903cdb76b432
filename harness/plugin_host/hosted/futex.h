// Waiting for a number in shared memory to change.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdint>

namespace kvc {

// Until the number is no longer `value`, or for so long; may return early.
inline void futex_wait(std::atomic<uint32_t>& number, uint32_t value, double seconds) {
  const timespec time{static_cast<time_t>(seconds),
                      static_cast<long>((seconds - static_cast<double>(static_cast<time_t>(seconds))) * 1e9)};
  ::syscall(SYS_futex, &number, FUTEX_WAIT, value, &time, nullptr, 0);
}

inline void futex_wake(std::atomic<uint32_t>& number) {
  ::syscall(SYS_futex, &number, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace kvc
