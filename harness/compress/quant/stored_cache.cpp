#include "kvc/quant/stored_cache.h"

#include <ATen/ATen.h>

namespace kvc {

StoredCache::StoredCache(const LayerInfo& info, const GroupFormat& k, const GroupFormat& v)
    : PartsCache(info), k_(k.precision), v_(v.precision), k_format_(k), v_format_(v) {}

void StoredCache::append(const NewTokens& tokens) {
  check_new_tokens(tokens);
  const bool first = length() == 0;
  const auto push = [&](StoredTokens& held, const at::Tensor& x, GroupFormat format) {
    format.merge_tokens = format.merge_tokens && first;
    held.codes.push_back(quantize_groups(x, format));
  };
  if (info().holds_k()) push(k_, tokens.k, k_format_);
  if (info().holds_v()) push(v_, tokens.v, v_format_);
}

void StoredCache::push_recent(const NewTokens& tokens) {
  check_new_tokens(tokens);
  if (info().holds_k()) k_.recent.push_back(tokens.k);
  if (info().holds_v()) v_.recent.push_back(tokens.v);
}

void StoredCache::encode_front(int64_t n_k_tokens, int64_t n_v_tokens) {
  if (info().holds_k()) k_.encode_front(n_k_tokens, k_format_);
  if (info().holds_v()) v_.encode_front(n_v_tokens, v_format_);
}

void StoredCache::read_k(CompressedAttention& attention) const {
  int64_t first = 0;
  for (const auto& block : k_.codes.blocks()) {
    attention.score(block, first);
    first += block.n_tokens;
  }
  attention.score(k_.recent, first);
}

void StoredCache::read_v(CompressedAttention& attention) const {
  int64_t first = 0;
  for (const auto& block : v_.codes.blocks()) {
    attention.accumulate_v(block, first);
    first += block.n_tokens;
  }
  attention.accumulate_v(v_.recent, first);
}

Footprint StoredCache::footprint() const {
  Footprint bytes;
  k_.add_to(bytes, CacheTensor::k);
  v_.add_to(bytes, CacheTensor::v);
  return bytes;
}

}  // namespace kvc
