#include "kvc/quant/evicting_cache.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>

#include "kvc/quant/attention_mass.h"
#include "kvc/quant/kept_tokens.h"
#include "kvc/value_checks.h"

namespace kvc {
namespace {

// Steps that gather rows make one block of them anyway.
TokenBlocks blocks_for(const EvictionFormat& format) {
  const auto type = storage_type(format.precision);
  return format.ranking == Ranking::always ? TokenBlocks(type, kWholeBlock) : TokenBlocks(type);
}

at::Tensor rows_at(const at::Tensor& x, const at::Tensor& index, int64_t n_more = 0) {  // x [H, n]
  return keep_rows(x.unsqueeze(2), index, n_more).squeeze(2);
}

NewTokens token_of(const NewTokens& tokens, int64_t t, int64_t position) {
  const auto token = [&](const at::Tensor& x) { return x.defined() ? x.narrow(1, t, 1) : x; };
  return {token(tokens.q), token(tokens.k), token(tokens.v), position};
}

}  // namespace

EvictingCache::EvictingCache(const LayerInfo& info, const EvictionFormat& format)
    : PartsCache(info),
      format_(format),
      k_{TokenBlocks(storage_type(format.precision)), blocks_for(format)},
      v_{TokenBlocks(storage_type(format.precision)), blocks_for(format)},
      queries_(storage_type(format.precision)) {}

at::Tensor EvictingCache::score(const NewTokens& prompt) const {
  return at::zeros({prompt.k.size(0), prompt.k.size(1)}, prompt.k.options().dtype(at::kFloat));
}

at::Tensor EvictingCache::rescore(const at::Tensor& scores, const NewTokens& tokens) const {
  const int64_t n = tokens.k.size(1);
  auto result = scores.clone();
  result.narrow(1, scores.size(1) - n, n).copy_(score(tokens));
  return result;
}

void EvictingCache::append(const NewTokens& tokens) {
  check_new_tokens(tokens);
  const bool prompt = length_ == 0;
  const bool chunk = tokens.kind == AppendKind::prompt_chunk || tokens.kind == AppendKind::last_chunk;
  const int64_t n = tokens.k.size(1);
  if (prompt || chunk) budget_ = budget(length_ + n);
  const auto ranking = format_.ranking;
  const bool ranks = ranking == Ranking::always || ranking == Ranking::at_intervals ||
                     (ranking == Ranking::prompt && (chunk || (prompt && !has_room(n))));
  if (ranks && format_.reads_queries) check_queries(format_.method, tokens, info());
  if (ranking == Ranking::none) return take_by_place(tokens);
  if (chunk) return take_chunk(tokens);
  if (ranking == Ranking::at_intervals) return take_at_intervals(tokens);
  if (ranks && prompt) return take_prompt(tokens);
  if (!ranks) return hold(tokens);
  for (int64_t t = 0; t < n; ++t) take_step(token_of(tokens, t, length_));
}

void EvictingCache::hold(const NewTokens& tokens) {
  k_.rest.push_back(tokens.k);
  v_.rest.push_back(tokens.v);
  length_ += tokens.k.size(1);
}

bool EvictingCache::has_room(int64_t n_prompt_tokens) const {
  return n_prompt_tokens - budget_.recent - budget_.ranked <= budget_.sinks;
}

// Which of the tokens with these scores [H, n] stay: [H, m] int64, ascending. Sinks are the first columns at any time.
at::Tensor EvictingCache::best(const at::Tensor& scores) const {
  if (budget_.sinks == 0) return heaviest_and_recent(scores, budget_.ranked, budget_.recent);
  auto raised = scores.clone();
  raised.narrow(1, 0, std::min(budget_.sinks, scores.size(1))).fill_(std::numeric_limits<float>::infinity());
  return heaviest_and_recent(raised, budget_.sinks + budget_.ranked, budget_.recent);
}

void EvictingCache::take_by_place(const NewTokens& tokens) {
  const int64_t n = tokens.k.size(1), n_sinks = std::min(n, budget_.sinks - k_.sinks.n_tokens());
  const int64_t n_recent = std::min(n - n_sinks, budget_.recent);
  k_.take(tokens.k, n_sinks, n_recent, budget_.recent);
  v_.take(tokens.v, n_sinks, n_recent, budget_.recent);
  length_ += n;
}

at::Tensor EvictingCache::scores_of(const NewTokens& tokens) const {
  const auto scores = score(tokens).contiguous();
  KVC_CHECK(scores.dim() == 2 && scores.size(0) == tokens.k.size(0) && scores.size(1) == tokens.k.size(1),
            format_.method, ": score gives ", scores.sizes(), ", expected [", tokens.k.size(0), ", ", tokens.k.size(1),
            "]");
  return scores;
}

void EvictingCache::take_prompt(const NewTokens& tokens) {
  const auto scores = scores_of(tokens);
  const auto kept = best(scores);
  if (format_.ranking == Ranking::always) {
    k_.rest.push_rows(tokens.k, kept);
    v_.rest.push_rows(tokens.v, kept);
    scores_ = rows_at(scores, kept);
  } else {
    k_.rest.push_back(keep_rows(tokens.k.contiguous(), kept));
    v_.rest.push_back(keep_rows(tokens.v.contiguous(), kept));
  }
  kept_ = kept.to(info().device, at::kInt);
  length_ = tokens.k.size(1);
}

void EvictingCache::take_step(const NewTokens& token) {
  const auto kept = best(scores_);
  const int64_t m = kept.size(1);
  k_.rest.keep_and_push(kept, token.k);
  v_.rest.keep_and_push(kept, token.v);
  kept_ = rows_at(kept_, kept, 1);
  kept_.narrow(1, m, 1).fill_(length_++);
  scores_ = rows_at(scores_, kept, 1);
  scores_.narrow(1, m, 1).zero_();
  scores_ = rescore(scores_, token).contiguous();
}

void EvictingCache::take_chunk(const NewTokens& tokens) {
  const bool always = format_.ranking == Ranking::always;
  hold(tokens);
  if (always) {
    const auto of_new = at::zeros({tokens.k.size(0), tokens.k.size(1)}, tokens.k.options().dtype(at::kFloat));
    scores_ = rescore(scores_.defined() ? at::cat({scores_, of_new}, 1) : of_new, tokens).contiguous();
    kept_ = positions().to(at::kInt);
  }
  if (format_.ranking == Ranking::at_intervals) {
    hold_queries(tokens.q);
    return evict();
  }
  if (has_room(n_held())) return;
  keep_best(always ? scores_ : scores_of({tokens.q, k_.rest.all(), {}, 0}));
}

void EvictingCache::take_at_intervals(const NewTokens& tokens) {
  const int64_t n = tokens.k.size(1);
  if (length_ == 0) {
    has_room(n) ? hold(tokens) : take_prompt(tokens);
    return hold_queries(tokens.q);
  }
  for (int64_t t = 0; t < n; ++t) {
    if (n_since_ == format_.interval) evict();
    hold(token_of(tokens, t, length_));
    hold_queries(tokens.q.narrow(1, t, 1));
    ++n_since_;
  }
}

void EvictingCache::hold_queries(const at::Tensor& q) {
  const int64_t n = std::min(q.size(1), format_.n_queries);
  queries_.push_back(q.narrow(1, q.size(1) - n, n));
  if (queries_.n_tokens() > format_.n_queries) queries_.take_front(queries_.n_tokens() - format_.n_queries);
}

void EvictingCache::evict() {
  n_since_ = 0;
  if (has_room(n_held())) return;
  keep_best(scores_of({queries_.all(), k_.rest.all(), {}, 0}));
}

void EvictingCache::keep_best(const at::Tensor& scores) {
  const auto kept = best(scores);
  const auto none = k_.rest.blocks().front().narrow(1, 0, 0);
  kept_ = rows_at(positions().to(at::kInt), kept);
  k_.rest.keep_and_push(kept, none);
  v_.rest.keep_and_push(kept, none);
  if (scores_.defined()) scores_ = rows_at(scores_, kept);
}

at::Tensor EvictingCache::received(const at::Tensor& q) const {
  if (q.size(1) > 1) return attention_mass(q, k_.rest.all(), info(), positions());
  KVC_CHECK(CompressedAttention::takes(q), format_.method, ": decodes on the CPU only, head_dim at most 1024");
  CompressedAttention attention(q, info().attention_scale, info(), n_held());
  read_k(attention);
  apply_softmax(attention);
  return attention.weights().view({info().n_kv_heads, -1, n_held()}).sum(1);
}

void EvictingCache::read_k(CompressedAttention& attention) const {
  attention.score(k_.sinks, 0);
  attention.score(k_.rest, k_.sinks.n_tokens());
}

void EvictingCache::read_v(CompressedAttention& attention) const {
  attention.accumulate_v(v_.sinks, 0);
  attention.accumulate_v(v_.rest, v_.sinks.n_tokens());
}

at::Tensor EvictingCache::positions() const {
  const auto options = at::TensorOptions(at::kLong).device(info().device);
  const int64_t n_sinks = k_.sinks.n_tokens(), n_named = kept_.defined() ? kept_.size(1) : 0;
  const int64_t n_later = k_.rest.n_tokens() - n_named;
  const auto each_head = [&](const at::Tensor& x) { return x.expand({info().n_kv_heads, x.size(0)}); };
  std::vector<at::Tensor> parts{each_head(at::arange(n_sinks, options))};
  if (kept_.defined()) parts.push_back(kept_.to(at::kLong));
  parts.push_back(each_head(at::arange(length_ - n_later, length_, options)));
  return at::cat(parts, 1);
}

// Of each KV head the held tokens before the model's sliding window.
std::vector<int64_t> EvictingCache::n_hidden() const {
  std::vector<int64_t> hidden(static_cast<size_t>(info().n_kv_heads), 0);
  const int64_t first_seen = info().sliding_window > 0 ? length_ - info().sliding_window : 0;
  if (first_seen <= 0) return hidden;
  const auto counts = positions().lt(first_seen).sum(1).cpu();
  std::copy_n(counts.const_data_ptr<int64_t>(), hidden.size(), hidden.begin());
  return hidden;
}

Footprint EvictingCache::footprint() const {
  Footprint bytes;
  k_.add_to(bytes, CacheTensor::k);
  v_.add_to(bytes, CacheTensor::v);
  bytes.add(CacheTensor::shared, ByteKind::index, kept_);
  bytes.add(CacheTensor::shared, ByteKind::scores, scores_);
  queries_.add_to(bytes, CacheTensor::shared, ByteKind::scores);
  return bytes;
}

at::Tensor EvictingCache::Held::all() const {
  if (sinks.n_tokens() == 0) return rest.all();
  return rest.n_tokens() == 0 ? sinks.all() : at::cat({sinks.all(), rest.all()}, 1);
}

void EvictingCache::Held::add_to(Footprint& bytes, CacheTensor tensor) const {
  sinks.add_to(bytes, tensor);
  rest.add_to(bytes, tensor);
}

// x [H, T, D]: the first n_sinks are sinks, the last n_recent go to a window of at most `window`.
void EvictingCache::Held::take(const at::Tensor& x, int64_t n_sinks, int64_t n_recent, int64_t window) {
  if (n_sinks > 0) sinks.push_back(x.narrow(1, 0, n_sinks));
  if (n_recent == 0) return;
  const int64_t n_evicted = rest.n_tokens() + n_recent - window;
  if (n_evicted > 0) rest.pop_front(n_evicted);
  rest.push_back(x.narrow(1, x.size(1) - n_recent, n_recent));
}

}  // namespace kvc
