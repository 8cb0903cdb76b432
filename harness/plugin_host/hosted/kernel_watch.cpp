#include "hosted/kernel_watch.h"

#include <algorithm>
#include <utility>

#include "sandbox/memory_meter.h"

namespace kvc {
namespace {

constexpr int64_t kAllowedPart = 50;          // 1/50 of the appended bytes
constexpr double kAlwaysCounted = 128 << 20;  // bytes of a prompt's K and V
constexpr double kLeastShare = 1. / 16;       // of smaller ones
constexpr int64_t kAllowedBytes = 256 << 10;
constexpr int64_t kAllowedPerCache = 64 << 10;  // pages that tensors begin and end in

KernelCount counted(HostProcess& process) {
  process.call({.operation = protocol::Operation::settle});
  return process.count();
}

}  // namespace

int64_t allowed_growth(int64_t appended_bytes, int64_t n_caches) {
  return appended_bytes / kAllowedPart + kAllowedBytes + n_caches * kAllowedPerCache;
}

void KernelWatch::before(int64_t bytes) {
  const auto share = std::max(static_cast<double>(bytes) / kAlwaysCounted, kLeastShare);
  is_drawn_ = std::uniform_real_distribution<>()(random_) < share;
  if (!is_drawn_) return;
  for (const auto& process : HostProcess::all()) {
    auto& sum = sums_[process.get()];
    if (sum.process.lock() != process) sum = {process};  // another one has its address
    try {
      sum.memory_before = counted(*process).memory_bytes;
      sum.held_before = MemoryMeter::held_by(process.get());
      sum.given_before = process->given();
    } catch (const Error&) {  // it has ended, which its caches' calls tell
    }
  }
}

void KernelWatch::after() {
  if (!is_drawn_) return;
  for (const auto& process : HostProcess::all()) {
    auto& sum = sums_[process.get()];
    if (sum.process.lock() != process) sum = {process};
    const auto given = process->given();
    if (given.bytes == sum.given_before.bytes) continue;
    try {
      const auto now = counted(*process);
      if (now.n_processes > 0) process->condemn(concat("has started ", now.n_processes, " processes"));
      if (std::exchange(sum.is_warm, true)) {
        sum.grown += now.memory_bytes - sum.memory_before;
        sum.held += MemoryMeter::held_by(process.get()) - sum.held_before;
        sum.given.bytes += given.bytes - sum.given_before.bytes;
        sum.given.n_caches += given.n_caches - sum.given_before.n_caches;
      }
    } catch (const Error&) {
      continue;
    }
    if (sum.given.bytes >= kJudgedBytes) judge(*process, sum);
  }
}

void KernelWatch::judge(HostProcess& process, Sum& sum) {
  const int64_t allowed = allowed_growth(sum.given.bytes, sum.given.n_caches);
  const bool exceeds = sum.grown > sum.held + allowed;
  if (exceeds && sum.has_exceeded) {
    process.condemn(concat("has grown by ", sum.grown, " bytes for ", sum.given.bytes,
                           " bytes of K and V, of which its caches report ", sum.held, " (allowed beyond: ", allowed,
                           "), and before that as much: keep K and V in what footprint() counts"));
  }
  sum.has_exceeded = exceeds;
  sum.grown = 0, sum.held = 0, sum.given = {};
}

}  // namespace kvc
