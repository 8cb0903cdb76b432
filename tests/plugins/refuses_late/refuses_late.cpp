// Takes every model, and finds out at the first token that it cannot serve a head_dim of 80.
#include "exact_cache.h"

namespace {

class LateCache final : public test_plugins::ExactCache {
 public:
  using ExactCache::ExactCache;
  void append(const kvc::NewTokens& tokens) override {
    KVC_CHECK(info().head_dim != 80, "refuses_late: head_dim 80, allowed: any other");
    ExactCache::append(tokens);
  }
};

}  // namespace

KVC_PLUGIN(test_plugins::NoOptions, test_plugins::ExactCompressor<LateCache>, "refuses_late",
           "refuses models when it is too late", "none", "none", {.lossy = false})
