// Writes through a null pointer when it attends.
#include "exact_cache.h"

namespace {

class SegfaultingCache final : public test_plugins::ExactCache {
 public:
  using ExactCache::ExactCache;
  at::Tensor attend(const at::Tensor& q, double scale) const override {
    volatile int* volatile nowhere = nullptr;
    *nowhere = 1;
    return ExactCache::attend(q, scale);
  }
};

}  // namespace

KVC_PLUGIN(test_plugins::NoOptions, test_plugins::ExactCompressor<SegfaultingCache>, "segfaults",
           "crashes when it attends", "none", "none", {.lossy = false})
