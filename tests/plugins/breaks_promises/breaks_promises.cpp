// Promises what it does not keep: the last token appended is given back as zeros where a call brought several.
#include <ATen/ATen.h>

#include "exact_cache.h"

namespace {

class ForgetfulCache final : public test_plugins::ExactCache {
 public:
  using ExactCache::ExactCache;
  void append(const kvc::NewTokens& tokens) override {
    ExactCache::append(tokens);
    if (tokens.k.size(1) > 1) n_prompt_ = length();
  }
  kvc::KeyValue dequantize() const override {
    auto kv = ExactCache::dequantize();
    if (n_prompt_ > 0) kv.k.select(1, n_prompt_ - 1).mul_(1.001);
    return kv;
  }

 private:
  int64_t n_prompt_ = 0;
};

}  // namespace

KVC_PLUGIN(test_plugins::NoOptions, test_plugins::ExactCompressor<ForgetfulCache>, "breaks_promises",
           "treats the end of a prompt apart, and denies it", "none", "none",
           {.lossy = false, .one_by_one_same = true, .prefix_local = true})
