// A cache whose K and V are codes, followed by uncompressed recent tokens. By default each token is encoded on arrival;
// a method with a recent window overrides append().
#pragma once

#include <algorithm>

#include "kvc/quant/parts_cache.h"
#include "kvc/quant/token_blocks.h"

namespace kvc {

class KVC_EXPORT StoredCache : public PartsCache, public DropsTokens {
 public:
  StoredCache(const LayerInfo& info, const GroupFormat& k, const GroupFormat& v);

  // With merge_tokens, the prompt's tokens (of a chunked prompt, each chunk's) are one group, and each later token is a
  // group of its own.
  void append(const NewTokens& tokens) override;
  KeyValue dequantize() const final { return {k_.dequantize(), v_.dequantize()}; }
  int64_t length() const final { return std::max(k_.n_tokens(), v_.n_tokens()); }
  int64_t n_encoded_tokens() const final { return std::max(k_.codes.n_tokens(), v_.codes.n_tokens()); }
  int64_t n_encoded_numbers() const final {
    return (k_.codes.n_tokens() + v_.codes.n_tokens()) * info().n_kv_heads * info().head_dim;
  }
  Footprint footprint() const final;
  int64_t droppable(int64_t n_tokens) const override;
  void drop_oldest(int64_t n_tokens) final;

 protected:
  void read_k(CompressedAttention& attention) const final;
  void read_v(CompressedAttention& attention) const final;
  void push_recent(const NewTokens& tokens);  // checks them
  int64_t n_recent() const { return std::max(k_.recent.n_tokens(), v_.recent.n_tokens()); }
  void encode_front(int64_t n_k_tokens, int64_t n_v_tokens);  // the oldest recent ones

  StoredTokens k_, v_;  // empty if the cache does not store that tensor

 private:
  GroupFormat k_format_, v_format_;
};

}  // namespace kvc
