// Claims to compress at 2 bits, reports its tokens as encoded, and keeps them exactly: its error is zero.
#include "exact_cache.h"

namespace {

class LyingCache final : public test_plugins::ExactCache {
 public:
  using ExactCache::ExactCache;
  int64_t n_encoded_tokens() const override { return length(); }
};

}  // namespace

KVC_PLUGIN(test_plugins::NoOptions, test_plugins::ExactCompressor<LyingCache>, "lying_zero_error",
           "claims to be lossy, is exact", "none", "none", {.lossy = true})
