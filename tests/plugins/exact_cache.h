// Exact fp16 tokens behind a compressor, for test plugins to break in one place each.
#pragma once

#include <kvc/plugin.h>
#include <kvc/quant/token_blocks.h>

namespace test_plugins {

struct NoOptions {
  void visit(kvc::OptionVisitor&) {}
};

class ExactCache : public kvc::LayerCache {
 public:
  explicit ExactCache(const kvc::LayerInfo& info, at::ScalarType type = at::kHalf)
      : LayerCache(info), k_(type), v_(type) {}
  void append(const kvc::NewTokens& tokens) override {
    check_new_tokens(tokens);
    k_.push_back(tokens.k);
    v_.push_back(tokens.v);
  }
  kvc::KeyValue dequantize() const override { return {k_.all(), v_.all()}; }
  int64_t length() const override { return k_.n_tokens(); }
  int64_t n_encoded_tokens() const override { return 0; }
  kvc::Footprint footprint() const override {
    kvc::Footprint bytes;
    k_.add_to(bytes, kvc::CacheTensor::k);
    v_.add_to(bytes, kvc::CacheTensor::v);
    return bytes;
  }

 protected:
  kvc::TokenBlocks k_, v_;
};

template <class Cache>
class ExactCompressor final : public kvc::Compressor {
 public:
  explicit ExactCompressor(const NoOptions&) {}
  std::unique_ptr<kvc::LayerCache> make_cache(const kvc::LayerInfo& info) const override {
    return std::make_unique<Cache>(info);
  }
  double bits() const override { return 16; }
  double paper_bytes(const kvc::ModelShape& model, int64_t n_prompt_tokens, int64_t n_new_tokens) const override {
    return 4.0 * static_cast<double>(model.n_kv_heads * model.head_dim * (n_prompt_tokens + n_new_tokens));
  }
};

}  // namespace test_plugins
