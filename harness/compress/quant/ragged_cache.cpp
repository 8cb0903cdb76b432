#include "kvc/quant/ragged_cache.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>

#include "kvc/quant/compressed_attention.h"

namespace kvc {

void RaggedTokens::take(const at::Tensor& x, const at::Tensor& kept) {
  const auto counts = kept.sum(1).cpu();  // int64
  counts_.assign(counts.const_data_ptr<int64_t>(), counts.const_data_ptr<int64_t>() + counts.numel());
  const auto index = kept.flatten().nonzero().squeeze(1);
  rows_.push_back(x.flatten(0, 1).index_select(0, index).unsqueeze(0));
}

int64_t RaggedTokens::longest() const {
  return counts_.empty() ? 0 : *std::max_element(counts_.begin(), counts_.end());
}

int64_t RaggedTokens::first_row(int64_t head) const {
  return std::accumulate(counts_.begin(), counts_.begin() + head, int64_t{0});
}

const at::Tensor& RaggedTokens::rows() const { return rows_.blocks().front(); }

at::Tensor RaggedTokens::padded(const at::Tensor& x, const at::Scalar& filler) const {
  auto all = at::full({n_heads(), longest(), x.size(2)}, filler, x.options());
  for (int64_t h = 0; h < n_heads(); ++h) {
    all[h].narrow(0, longest() - count(h), count(h)).copy_(x[0].narrow(0, first_row(h), count(h)));
  }
  return all;
}

RaggedCache::RaggedCache(const LayerInfo& info, Precision precision)
    : PartsCache(info),
      k_{RaggedTokens(storage_type(precision)), TokenBlocks(storage_type(precision))},
      v_{RaggedTokens(storage_type(precision)), TokenBlocks(storage_type(precision))} {}

void RaggedCache::append(const NewTokens& tokens) {
  check_new_tokens(tokens);
  const auto kept = length_ == 0 ? keeps(tokens) : at::Tensor();
  if (kept.defined()) {
    take_prompt(tokens.k, tokens.v, kept);
  } else {
    k_.later.push_back(tokens.k);
    v_.later.push_back(tokens.v);
  }
  length_ += tokens.k.size(1);
}

void RaggedCache::evict(const at::Tensor& kept) {
  KVC_CHECK(length_ > 0 && !kept_.defined(), "ragged cache: evict() in layer ", info().layer, " at ", length_,
            " tokens, expected one call, with the whole prompt stored");
  const auto k = k_.later.take_front(length_), v = v_.later.take_front(length_);
  take_prompt(k, v, kept);
}

// k, v: [H_kv, T, D]
void RaggedCache::take_prompt(const at::Tensor& k, const at::Tensor& v, const at::Tensor& kept) {
  const int64_t n_heads = k.size(0), n = k.size(1);
  KVC_CHECK(kept.dim() == 2 && kept.size(0) == n_heads && kept.size(1) == n && kept.scalar_type() == at::kBool,
            "ragged cache: keeps() gives ", kept.scalar_type(), " ", kept.sizes(), ", expected bool [", n_heads, ", ",
            n, "]");
  KVC_CHECK(kept.any(1).all().item<bool>(), "ragged cache: keeps() leaves a KV head of layer ", info().layer,
            " without tokens, allowed: at least one each");
  const auto mask = kept.to(info().device);
  k_.prompt.take(k, mask);
  v_.prompt.take(v, mask);
  const auto position = at::arange(n, at::TensorOptions(at::kInt).device(info().device)).expand({n_heads, n});
  kept_ = position.masked_select(mask).view({1, -1, 1});
  n_evicted_ = n - mask.all(0).sum().item<int64_t>();
}

void RaggedCache::read_k(CompressedAttention& attention) const {
  attention.score(k_.prompt, 0);
  attention.score(k_.later, k_.prompt.longest());
}

void RaggedCache::read_v(CompressedAttention& attention) const {
  attention.accumulate_v(v_.prompt, 0);
  attention.accumulate_v(v_.later, v_.prompt.longest());
}

void RaggedCache::apply_softmax(CompressedAttention& attention) const { attention.softmax(n_hidden()); }

int64_t RaggedCache::n_attended() const { return k_.prompt.longest() + k_.later.n_tokens(); }

at::Tensor RaggedCache::positions() const {
  if (!kept_.defined()) return LayerCache::positions();
  const auto prompt = k_.prompt.padded(kept_.to(at::kLong), -1).squeeze(2);
  const auto later = at::arange(length_ - k_.later.n_tokens(), length_, prompt.options());
  return at::cat({prompt, later.expand({prompt.size(0), later.size(0)})}, 1);
}

// Of each KV head the columns that hold nothing, and the tokens before the model's sliding window.
std::vector<int64_t> RaggedCache::n_hidden() const {
  std::vector<int64_t> hidden(static_cast<size_t>(info().n_kv_heads), 0);
  for (int64_t h = 0; h < k_.prompt.n_heads(); ++h) hidden[h] = k_.prompt.longest() - k_.prompt.count(h);
  const int64_t first_seen = info().sliding_window > 0 ? length_ - info().sliding_window : 0;
  if (first_seen <= 0) return hidden;
  const auto counts = positions().lt(first_seen).sum(1).cpu();  // -1, too
  std::copy_n(counts.const_data_ptr<int64_t>(), hidden.size(), hidden.begin());
  return hidden;
}

Footprint RaggedCache::footprint() const {
  Footprint bytes;
  k_.add_to(bytes, CacheTensor::k);
  v_.add_to(bytes, CacheTensor::v);
  bytes.add(CacheTensor::shared, ByteKind::index, kept_);
  return bytes;
}

std::vector<ProbedPart> RaggedCache::probed_parts() const {
  if (length_ == 0) return {};
  const auto held = positions().ge(0).sum(1).cpu();  // tokens of each KV head
  Footprint bytes;
  k_.add_to(bytes, CacheTensor::k);
  v_.add_to(bytes, CacheTensor::v);
  const int64_t of_token = bytes.total_bytes() / held.sum().item<int64_t>();
  const auto padded = held.max() * held.numel() * of_token;
  return {{"kept_tokens", held.to(at::kDouble)},
          {"kv_ragged_bytes", at::full({1}, bytes.total_bytes(), at::kDouble)},
          {"kv_padded_bytes", padded.to(at::kDouble).view({1})}};
}

at::Tensor RaggedCache::Held::all() const {
  if (prompt.n_heads() == 0) return later.all();
  return later.n_tokens() == 0 ? prompt.all() : at::cat({prompt.all(), later.all()}, 1);
}

void RaggedCache::Held::add_to(Footprint& bytes, CacheTensor tensor) const {
  prompt.add_to(bytes, tensor);
  later.add_to(bytes, tensor);
}

}  // namespace kvc
