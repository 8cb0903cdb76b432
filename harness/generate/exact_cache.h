// The cache of a model on its own: K and V in the type the model computes them in. What every compressor is held
// against.
#pragma once

#include <vector>

#include "kvc/layer_cache.h"

namespace kvc {

class ExactCache final : public LayerCache {
 public:
  explicit ExactCache(const LayerInfo& info) : LayerCache(info) {}

  void append(const NewTokens& tokens) override;
  KeyValue dequantize() const override;
  int64_t length() const override { return length_; }
  int64_t n_encoded_tokens() const override { return 0; }
  Footprint footprint() const override;

 private:
  at::Tensor k_, v_;  // [H_kv, >= length_, D], grown by doubling
  int64_t length_ = 0;
};

}  // namespace kvc
