#include "kvc/layer_cache.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>

#include "kvc/split_attention.h"
#include "kvc/step_writes.h"
#include "kvc/value_checks.h"

namespace kvc {

LayerCache::~LayerCache() = default;
SplitAttention::~SplitAttention() = default;
DropsTokens::~DropsTokens() = default;

namespace {

constexpr int64_t kDroppedAtOnce = 64;  // at least: a drop may copy a block

}  // namespace

NewTokens seen_prompt(const NewTokens& prompt, LayerInfo& layer) {
  const int64_t n = prompt.k.size(1), n_hidden = n_hidden_tokens(layer.sliding_window, n);
  layer.first_position = n_hidden;
  const auto seen = [&](const at::Tensor& x) {
    return x.defined() && x.size(1) == n ? x.narrow(1, n_hidden, n - n_hidden) : x;
  };
  return {seen(prompt.q), seen(prompt.k), seen(prompt.v), 0};
}

int64_t drop_hidden(LayerCache& cache, int64_t sliding_window, int64_t position) {
  const int64_t n_hidden = std::min(n_hidden_tokens(sliding_window, position + 1), position - 1);  // one stays
  if (n_hidden < kDroppedAtOnce) return 0;
  auto* drops = dynamic_cast<DropsTokens*>(&cache);
  const int64_t n = drops ? drops->droppable(n_hidden) : 0;
  if (n > 0) drops->drop_oldest(n);
  return n;
}

at::Tensor LayerCache::attend(const at::Tensor& q, double scale) const {
  return reference_attention(attended_query(q), attended(), positions(), length(), scale, info_);
}

at::Tensor LayerCache::attended_query(const at::Tensor& q) const { return q; }

KeyValue LayerCache::attended() const { return dequantize(); }

at::Tensor LayerCache::positions() const {
  return at::arange(length(), at::TensorOptions(at::kLong).device(info_.device)).expand({info_.n_kv_heads, length()});
}

int64_t LayerCache::n_encoded_numbers() const {
  const int64_t n_evicted = length() - positions().size(1);
  return numbers_of(std::max<int64_t>(0, n_encoded_tokens() - n_evicted));
}

namespace {

// A sum is finite only if no entry is NaN; infinities show as such or as NaN. fp32 sums of finite entries may overflow
// only beyond what 16-bit storage could hold anyway.
at::Tensor all_finite(const at::Tensor& x) {
  auto* writes = StepWrites::of_device(x.device());
  return writes && StepWrites::takes(x) ? writes->finite(x) : x.sum(at::kFloat).isfinite();
}

}  // namespace

void LayerCache::check_new_tokens(const NewTokens& tokens) const {
  const auto& first = info_.holds_k() ? tokens.k : tokens.v;
  for (const auto* x : {&tokens.k, &tokens.v}) {
    if (x == &tokens.k ? !info_.holds_k() : !info_.holds_v()) continue;
    KVC_CHECK(x->defined() && x->dim() == 3 && x->size(0) == info_.n_kv_heads && x->size(1) >= 1 &&
                  x->size(2) == info_.head_dim && x->size(1) == first.size(1),
              "append: ", x == &tokens.k ? "k" : "v", " has shape ", x->sizes(), ", expected [", info_.n_kv_heads,
              ", T >= 1, ", info_.head_dim, "]");
    check_values(all_finite(*x),
                 [name = x == &tokens.k ? "k" : "v", layer = info_.layer, position = tokens.first_position] {
                   return concat("append: ", name, " of layer ", layer, " at position ", position,
                                 " has a value that is not finite");
                 });
  }
  KVC_CHECK(tokens.first_position == length(), "append: first_position ", tokens.first_position, ", expected ",
            length());
}

at::Tensor attention_weights(at::Tensor scores, const at::Tensor& hidden, const LayerInfo& info, int64_t first_head) {
  if (info.logit_softcap > 0) scores.div_(info.logit_softcap).tanh_().mul_(info.logit_softcap);
  scores.masked_fill_(hidden, -std::numeric_limits<double>::infinity());
  if (!info.sinks.defined()) return scores.softmax(-1);
  auto shape = scores.sizes().vec();
  shape.back() = 1, shape[shape.size() - 2] = 1;
  const int64_t n_heads = c10::multiply_integers(shape);
  const auto sinks = info.sinks.narrow(0, first_head, n_heads).to(scores.options()).view(shape);
  shape[shape.size() - 2] = scores.size(-2);
  return at::cat({scores, sinks.expand(shape)}, -1).softmax(-1).narrow(-1, 0, scores.size(-1));
}

at::Tensor reference_attention(const at::Tensor& q, const KeyValue& kv, const at::Tensor& positions, int64_t length,
                               double scale, const LayerInfo& layer) {
  const int64_t n_heads = q.size(0), n_queries = q.size(1), n_kv_heads = kv.k.size(0), head_dim = q.size(2);
  KVC_CHECK(n_heads % n_kv_heads == 0, "attention: ", n_heads, " query heads over ", n_kv_heads, " KV heads");
  const int64_t group = n_heads / n_kv_heads;
  const auto k = kv.k.to(at::kFloat);
  const auto v = kv.v.to(at::kFloat);
  const auto grouped = q.to(at::kFloat).reshape({n_kv_heads, group * n_queries, head_dim});
  auto scores = at::matmul(grouped, k.transpose(1, 2)).mul_(scale);  // [H_kv, G*T_q, T_kept]
  scores = scores.view({n_kv_heads, group, n_queries, k.size(1)});
  const auto query_position = at::arange(length - n_queries, length, positions.options());  // [T_q]
  const auto key_position = positions.unsqueeze(1), last = query_position.unsqueeze(1);  // [H_kv, 1, T_kept], [T_q, 1]
  auto seen = key_position.le(last).logical_and_(key_position.ge(0));                    // [H_kv, T_q, T_kept]
  if (layer.sliding_window > 0) seen.logical_and_(key_position.gt(last - layer.sliding_window));
  const auto hidden = seen.logical_not_().unsqueeze(1);
  const auto weights = attention_weights(scores, hidden, layer).view({n_kv_heads, group * n_queries, k.size(1)});
  return at::matmul(weights, v).view({n_heads, n_queries, head_dim});
}

}  // namespace kvc
