// Never comes back from its 256th token of 128 channels.
#include <chrono>
#include <thread>

#include "exact_cache.h"

namespace {

class HangingCache final : public test_plugins::ExactCache {
 public:
  using ExactCache::ExactCache;
  void append(const kvc::NewTokens& tokens) override {
    ExactCache::append(tokens);
    while (length() == 256 && info().head_dim == 128) std::this_thread::sleep_for(std::chrono::seconds(1));
  }
};

}  // namespace

KVC_PLUGIN(test_plugins::NoOptions, test_plugins::ExactCompressor<HangingCache>, "hangs",
           "never comes back from its 256th token of 128 channels", "none", "none", {.lossy = false})
