// Works until a cache's third append, which aborts the process.
#include <cstdlib>

#include "exact_cache.h"

namespace {

class CrashingCache final : public test_plugins::ExactCache {
 public:
  using ExactCache::ExactCache;
  void append(const kvc::NewTokens& tokens) override {
    if (++n_calls_ == 3) std::abort();
    ExactCache::append(tokens);
  }

 private:
  int n_calls_ = 0;
};

}  // namespace

KVC_PLUGIN(test_plugins::NoOptions, test_plugins::ExactCompressor<CrashingCache>, "crashes",
           "aborts at the third append", "none", "none", {.lossy = false})
