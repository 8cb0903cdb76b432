// Holds a buffer that its footprint does not count.
#include <ATen/ATen.h>

#include "exact_cache.h"

namespace {

class HidingCache final : public test_plugins::ExactCache {
 public:
  explicit HidingCache(const kvc::LayerInfo& info) : ExactCache(info), hidden_(at::zeros({1000}, at::kFloat)) {}

 private:
  at::Tensor hidden_;
};

}  // namespace

KVC_PLUGIN(test_plugins::NoOptions, test_plugins::ExactCompressor<HidingCache>, "hides_bytes",
           "holds more than it says", "none", "none", {.lossy = true})
