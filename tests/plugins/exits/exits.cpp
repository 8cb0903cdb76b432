// Ends the process, well contented, when a prompt has 97 tokens.
#include <cstdlib>

#include "exact_cache.h"

namespace {

class ExitingCache final : public test_plugins::ExactCache {
 public:
  using ExactCache::ExactCache;
  void append(const kvc::NewTokens& tokens) override {
    if (tokens.k.size(1) == 97) std::_Exit(0);
    ExactCache::append(tokens);
  }
};

}  // namespace

KVC_PLUGIN(test_plugins::NoOptions, test_plugins::ExactCompressor<ExitingCache>, "exits", "ends the process", "none",
           "none", {.lossy = false})
