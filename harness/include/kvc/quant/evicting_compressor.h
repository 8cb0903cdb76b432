// The compressor of a method that stores some tokens uncompressed and evicts the others.
#pragma once

#include <memory>

#include "kvc/quant/parts_cache.h"
#include "kvc/quant/shared_options.h"

namespace kvc {

// Cache is a PartsCache constructed from (LayerInfo, Options). Options, besides visit(), have
//   Precision precision;           // of stored tokens
//   void check() const;            // throws Error, naming the method, if options exclude each other
//   int64_t n_kept(int64_t n_prompt_tokens, int64_t n_new_tokens) const;
// n_kept: tokens per KV head, mean over heads and layers. Their K and V in fp16 are the published size: papers count no
// positions, scores or queries.
template <class Options, class Cache>
class EvictingCompressor : public PartsCompressor {
 public:
  explicit EvictingCompressor(const Options& options) : options_(options) { options.check(); }

  std::unique_ptr<LayerCache> make_cache(const LayerInfo& info) const override {
    return std::make_unique<Cache>(info, options_);
  }
  double bits() const override { return bits_of(options_.precision); }
  double paper_bytes(const ModelShape& model, int64_t n_prompt_tokens, int64_t n_new_tokens) const override {
    return fp16_bytes(model, options_.n_kept(n_prompt_tokens, n_new_tokens));
  }

 private:
  Options options_;
};

}  // namespace kvc
