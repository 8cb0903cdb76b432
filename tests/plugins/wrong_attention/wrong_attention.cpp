// Attends with another scale than it was given.
#include "exact_cache.h"

namespace {

class WrongCache final : public test_plugins::ExactCache {
 public:
  using ExactCache::ExactCache;
  at::Tensor attend(const at::Tensor& q, double scale) const override { return ExactCache::attend(q, 1.01 * scale); }
};

}  // namespace

KVC_PLUGIN(test_plugins::NoOptions, test_plugins::ExactCompressor<WrongCache>, "wrong_attention",
           "attends with another scale", "none", "none", {.lossy = false})
