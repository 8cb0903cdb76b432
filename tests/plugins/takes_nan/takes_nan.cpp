// Takes whatever it is given, NaN and infinity with it.
#include <ATen/ATen.h>

#include "exact_cache.h"

namespace {

class CarelessCache final : public test_plugins::ExactCache {
 public:
  explicit CarelessCache(const kvc::LayerInfo& info) : ExactCache(info, at::kFloat) {}  // fp16 would refuse infinity
  void append(const kvc::NewTokens& tokens) override {
    check_new_tokens({tokens.q, at::zeros_like(tokens.k), at::zeros_like(tokens.v), tokens.first_position});
    k_.push_back(tokens.k.to(at::kFloat));
    v_.push_back(tokens.v.to(at::kFloat));
  }
};

}  // namespace

KVC_PLUGIN(test_plugins::NoOptions, test_plugins::ExactCompressor<CarelessCache>, "takes_nan", "takes NaN and infinity",
           "none", "none", {.lossy = false})
