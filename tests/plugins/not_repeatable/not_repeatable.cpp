// Adds noise from a generator that nothing seeds, and loses only that.
#include <ATen/ATen.h>

#include <atomic>

#include "exact_cache.h"

namespace {

std::atomic<int> n_caches = 0;

class NoisyCache final : public test_plugins::ExactCache {
 public:
  using ExactCache::ExactCache;
  kvc::KeyValue dequantize() const override {
    auto kv = ExactCache::dequantize();
    kv.v.add_(1e-4 * number_);
    return kv;
  }

 private:
  int number_ = n_caches++ % 7;
};

}  // namespace

KVC_PLUGIN(test_plugins::NoOptions, test_plugins::ExactCompressor<NoisyCache>, "not_repeatable",
           "gives each cache another noise", "none", "none", {.lossy = false})
