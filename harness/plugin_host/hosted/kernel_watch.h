// The kernel's count of what hosts hold, against what their caches report.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>

#include "hosted/host_process.h"

namespace kvc {

// Bytes that a process may grow by beyond what its n_caches caches report after appended_bytes of K and V (at 16 bits):
// what allocators take, and pages that are begun. Judged from kJudgedBytes on: below, what a process does once weighs more.
inline constexpr int64_t kJudgedBytes = 64 << 20;
int64_t allowed_growth(int64_t appended_bytes, int64_t n_caches);

// Of the hosts of this process, around the filling of caches. A host's first filling is not counted, in which its
// libraries take what they keep. Of the others growth, reports and appended bytes are added up until they are judged, so
// that a host that was given little a time is judged, too.
class KernelWatch {
 public:
  // bytes: of K and V that a compressor is about to be given, at 16 bits. Counting takes a while, so of small prompts
  // some are drawn.
  void before(int64_t bytes);
  // A host that has grown too much twice in a row, or has started processes, is condemned: its calls throw why from then
  // on. Once may be what a library keeps for a thread that now took part for the first time.
  void after();

 private:
  struct Sum {
    std::weak_ptr<HostProcess> process;
    bool is_warm = false, has_exceeded = false;
    int64_t memory_before = 0, held_before = 0;
    HostProcess::Given given_before = {};
    int64_t grown = 0, held = 0;
    HostProcess::Given given = {};
  };
  static void judge(HostProcess& process, Sum& sum);

  bool is_drawn_ = false;
  std::minstd_rand random_{std::random_device()()};
  std::map<const HostProcess*, Sum> sums_;
};

}  // namespace kvc
