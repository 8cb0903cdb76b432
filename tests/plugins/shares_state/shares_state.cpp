// Passes tokens through a buffer that all its caches share: two threads see each other's.
#include <ATen/ATen.h>

#include <chrono>
#include <mutex>
#include <thread>

#include "exact_cache.h"

namespace {

std::mutex mutex;  // of the buffer alone: no crash, only another's tokens
at::Tensor buffer;

class SharingCache final : public test_plugins::ExactCache {
 public:
  using ExactCache::ExactCache;
  void append(const kvc::NewTokens& tokens) override {
    check_new_tokens(tokens);
    put(tokens.k);
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    ExactCache::append({tokens.q, take(tokens.k), tokens.v, tokens.first_position});
  }

 private:
  static void put(const at::Tensor& k) {
    const std::lock_guard lock(mutex);
    buffer = k.clone();
  }
  static at::Tensor take(const at::Tensor& k) {
    const std::lock_guard lock(mutex);
    auto mine = buffer.defined() && buffer.sizes() == k.sizes() ? buffer : k;
    buffer = at::Tensor();
    return mine;
  }
};

}  // namespace

KVC_PLUGIN(test_plugins::NoOptions, test_plugins::ExactCompressor<SharingCache>, "shares_state",
           "shares a buffer between its caches", "none", "none", {.lossy = false})
