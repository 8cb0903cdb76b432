#include "kvc/quant/stored_cache.h"

#include <ATen/ATen.h>

namespace kvc {

StoredCache::StoredCache(const LayerInfo& info, const GroupFormat& k, const GroupFormat& v)
    : PartsCache(info), k_(k.precision), v_(v.precision), k_format_(k), v_format_(v) {}

void StoredCache::append(const NewTokens& tokens) {
  check_new_tokens(tokens);
  const bool prompt = tokens.kind != AppendKind::decoded;
  const auto push = [&](StoredTokens& held, const at::Tensor& x, GroupFormat format) {
    format.merge_tokens = format.merge_tokens && prompt;
    held.codes.encode(x, format);
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

void StoredCache::read_k(CompressedAttention& attention) const { attention.score(k_, 0); }
void StoredCache::read_v(CompressedAttention& attention) const { attention.accumulate_v(v_, 0); }

int64_t StoredCache::droppable(int64_t n_tokens) const {
  for (int64_t before = -1; n_tokens != before;) {  // until the groups of K and V end at the same token
    before = n_tokens;
    if (info().holds_k()) n_tokens = k_.droppable(n_tokens);
    if (info().holds_v()) n_tokens = v_.droppable(n_tokens);
  }
  return n_tokens;
}

void StoredCache::drop_oldest(int64_t n_tokens) {
  if (info().holds_k()) k_.drop_front(n_tokens);
  if (info().holds_v()) v_.drop_front(n_tokens);
}

Footprint StoredCache::footprint() const {
  Footprint bytes;
  k_.add_to(bytes, CacheTensor::k);
  v_.add_to(bytes, CacheTensor::v);
  return bytes;
}

}  // namespace kvc
