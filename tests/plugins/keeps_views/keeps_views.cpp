// Keeps the prompt's tensors instead of copies.
#include <ATen/ATen.h>

#include "exact_cache.h"

namespace {

class ViewingCache final : public test_plugins::ExactCache {
 public:
  using ExactCache::ExactCache;
  void append(const kvc::NewTokens& tokens) override {
    if (length() == 0) prompt_ = tokens.k;
    ExactCache::append(tokens);
  }
  kvc::KeyValue dequantize() const override {
    auto kv = ExactCache::dequantize();
    kv.k.narrow(1, 0, prompt_.size(1)).copy_(prompt_.to(at::kHalf));
    return kv;
  }

 private:
  at::Tensor prompt_;
};

}  // namespace

KVC_PLUGIN(test_plugins::NoOptions, test_plugins::ExactCompressor<ViewingCache>, "keeps_views",
           "reads the caller's memory later", "none", "none", {.lossy = false})
