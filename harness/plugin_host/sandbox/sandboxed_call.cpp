#include "sandbox/sandboxed_call.h"

#include <utility>

#include "kvc/check.h"

namespace kvc {
namespace {

thread_local std::string failure;

constexpr int64_t kLeftBytes = 1 << 20, kLeftTimes = 8;

}  // namespace

void fail_call(std::string error) { failure = std::move(error); }
std::string take_failure() { return std::exchange(failure, {}); }

void check_left_behind(const HostState& before, int account) {
  const auto changed = before.put_back();
  const auto opened = ledger::opened(account);
  if (!opened.empty()) ledger::forget_opened(account);
  KVC_CHECK(changed.empty(), "the compressor left ", changed, " changed");
  KVC_CHECK(opened.empty(), "the compressor opened ", opened, " while it ran");
}

std::string count_and_destroy_caches(MemoryMeter& meter, int account,
                                     std::vector<std::unique_ptr<LayerCache>>& caches) {
  const auto held = meter.held_bytes(account);  // before the plugin is asked
  int64_t reported = 0;
  const auto error = sandboxed_call(meter, account, CallMode::inspecting, [&] {
    Footprint bytes;
    for (const auto& cache : caches) bytes.add(cache->footprint());
    reported = bytes.total_bytes();
    check_bytes(bytes, held);
  });
  const auto later = destroy_caches(meter, account, caches, held, reported);
  return error.empty() ? later : error;
}

std::string destroy_caches(MemoryMeter& meter, int account, std::vector<std::unique_ptr<LayerCache>>& caches,
                           const MemoryMeter::Held& held, int64_t reported) {
  const auto n_caches = static_cast<int64_t>(caches.size());
  const auto error = sandboxed_call(meter, account, CallMode::inspecting,
                                    [&] { std::vector<std::unique_ptr<LayerCache>>().swap(caches); });
  const int64_t given_back = held.beside_tensors - meter.held_bytes(account).beside_tensors;
  const int64_t allowed = n_caches * kBytesACache + held.n_tensors * kBytesATensor + reported / 100;
  const auto left = meter.return_account(account);
  if (!error.empty()) return error;
  if (given_back > allowed) {
    return concat("the caches allocated ", given_back,
                  " bytes outside their tensors, from malloc, new or mmap (allowed for ", "bookkeeping: ", allowed,
                  "): keep K and V in tensors that footprint() counts");
  }
  if (left.bytes > kLeftBytes + kLeftTimes * left.largest) {
    return concat("sequences that have ended left ", left.bytes, " bytes allocated (", left.in_tensors,
                  " in tensors), one of them ", left.largest,
                  ": a cache must free its memory; memory that all share belongs in a kvc::Shared");
  }
  return "";
}

}  // namespace kvc
