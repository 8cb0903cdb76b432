// K and V as they came, in fp32: the cache that must change nothing.
#pragma once

#include <ATen/ATen.h>

#include <memory>
#include <vector>

#include "kvc/layer_cache.h"
#include "model/transformer.h"

namespace kvc::test {

class ExactCache final : public kvc::LayerCache {
 public:
  explicit ExactCache(const kvc::LayerInfo& info) : LayerCache(info) {}

  void append(const kvc::NewTokens& tokens) override {
    check_new_tokens(tokens);
    const auto k = tokens.k.to(at::kFloat), v = tokens.v.to(at::kFloat);
    k_ = k_.defined() ? at::cat({k_, k}, 1) : k.clone();
    v_ = v_.defined() ? at::cat({v_, v}, 1) : v.clone();
  }
  kvc::KeyValue dequantize() const override { return {k_, v_}; }
  int64_t length() const override { return k_.defined() ? k_.size(1) : 0; }
  int64_t n_encoded_tokens() const override { return 0; }
  kvc::Footprint footprint() const override { return {}; }

 private:
  at::Tensor k_, v_;
};

inline std::vector<std::unique_ptr<kvc::LayerCache>> exact_caches(const kvc::Transformer& model) {
  std::vector<std::unique_ptr<kvc::LayerCache>> caches;
  for (int64_t layer = 0; layer < model.shape().n_layers; ++layer) {
    caches.push_back(std::make_unique<ExactCache>(model.layer_info(layer, 0)));
  }
  return caches;
}

inline kvc::Transformer::OnLayer append_to(const std::vector<std::unique_ptr<kvc::LayerCache>>& caches) {
  return [&caches](int64_t layer, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
    caches[static_cast<size_t>(layer)]->append({q, k, v, 0});
  };
}

}  // namespace kvc::test
