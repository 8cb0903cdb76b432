// Works until a cache's third append, which throws.
#include "exact_cache.h"

namespace {

class ThrowingCache final : public test_plugins::ExactCache {
 public:
  using ExactCache::ExactCache;
  void append(const kvc::NewTokens& tokens) override {
    KVC_CHECK(++n_calls_ < 3, "throws: append called ", n_calls_, " times");
    ExactCache::append(tokens);
  }

 private:
  int n_calls_ = 0;
};

}  // namespace

KVC_PLUGIN(test_plugins::NoOptions, test_plugins::ExactCompressor<ThrowingCache>, "throws",
           "throws at the third append", "none", "none", {.lossy = false})
