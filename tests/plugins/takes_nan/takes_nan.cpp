// Takes whatever it is given, NaN and infinity with it.
#include <ATen/ATen.h>

#include "exact_cache.h"

namespace {

class CarelessCache final : public test_plugins::ExactCache {
 public:
  using ExactCache::ExactCache;
  void append(const kvc::NewTokens& tokens) override {
    check_new_tokens({tokens.q, at::zeros_like(tokens.k), at::zeros_like(tokens.v), tokens.first_position});
    k_.push_back(tokens.k.to(at::kFloat));
    v_.push_back(tokens.v.to(at::kFloat));
  }
  kvc::KeyValue dequantize() const override { return {k_.all(), v_.all()}; }
  int64_t length() const override { return k_.n_tokens(); }
  kvc::Footprint footprint() const override {
    kvc::Footprint bytes;
    k_.add_to(bytes, kvc::CacheTensor::k);
    v_.add_to(bytes, kvc::CacheTensor::v);
    return bytes;
  }

 private:
  kvc::TokenBlocks k_{at::kFloat}, v_{at::kFloat};  // fp16 would refuse infinity
};

}  // namespace

KVC_PLUGIN(test_plugins::NoOptions, test_plugins::ExactCompressor<CarelessCache>, "takes_nan", "takes NaN and infinity",
           "none", "none", {.lossy = false})
