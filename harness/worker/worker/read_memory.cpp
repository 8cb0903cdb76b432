#include "worker/read_memory.h"

#include <ATen/Parallel.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <new>

#include "contract/stopwatch.h"
#include "kvc/check.h"

namespace kvc {
namespace {

constexpr int64_t kWords = 32;     // that are added to sums of their own
constexpr int kLeastTimes = 3;     // besides the first
constexpr double kSeconds = 0.02;  // until then it is read again

uint64_t sum_of(const uint64_t* words, int64_t n) {
  std::array<uint64_t, kWords> sums{};
  for (int64_t i = 0; i < n; i += kWords) {
    for (size_t j = 0; j < kWords; ++j) sums[j] += words[static_cast<size_t>(i) + j];
  }
  uint64_t sum = 0;
  for (const auto s : sums) sum += s;
  return sum;
}

}  // namespace

void MemoryReader::Unmap::operator()(void* memory) const { ::munmap(memory, n_bytes); }

double MemoryReader::seconds(int64_t n_bytes) {
  const int64_t n_runs = (n_bytes + kWords * 8 - 1) / (kWords * 8);
  const auto n_whole = static_cast<size_t>(n_runs * kWords * 8);
  if (!memory_ || memory_.get_deleter().n_bytes < n_whole) {
    memory_.reset();
    void* mapped = ::mmap(nullptr, n_whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) throw std::bad_alloc();
    memory_ = std::unique_ptr<uint64_t, Unmap>(static_cast<uint64_t*>(mapped), Unmap{n_whole});
    std::fill_n(memory_.get(), n_whole / 8, uint64_t{1});  // untouched pages would all be one
  }
  double least = 0, all = 0;
  for (int i = 0; i <= kLeastTimes || all < kSeconds; ++i) {
    std::atomic<uint64_t> sum = 0;
    const auto start = Clock::now();
    at::parallel_for(0, n_runs, 1024,
                     [&](int64_t a, int64_t b) { sum += sum_of(memory_.get() + a * kWords, (b - a) * kWords); });
    const double taken = seconds_since(start);
    KVC_CHECK(sum == static_cast<uint64_t>(n_runs * kWords), "memory gave other words than were written");
    if (i > 0) least = i == 1 ? taken : std::min(least, taken);
    all += taken;
  }
  return least;
}

}  // namespace kvc
