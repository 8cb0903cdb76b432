// The cache of a model on its own: K and V in the type the model computes them in. What every compressor is
// compared with.
#pragma once

#include <vector>

#include "kvc/compressor.h"

namespace kvc {

class ExactCache : public LayerCache {
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

// The same as a method.
class ExactCompressor : public Compressor {
 public:
  std::unique_ptr<LayerCache> make_cache(const LayerInfo& info) const override {
    return std::make_unique<ExactCache>(info);
  }
  double bits() const override { return 32; }
  double paper_bytes(const ModelShape&, int64_t, int64_t) const override { return 0; }
};

}  // namespace kvc
