#include "compose/part.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>

#include "kernels/row_products.h"

namespace kvc {
namespace {

// Adds the time until its end.
class Stopwatch {
 public:
  explicit Stopwatch(double& seconds) : seconds_(seconds), start_(std::chrono::steady_clock::now()) {}
  ~Stopwatch() { seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  double& seconds_;
  std::chrono::steady_clock::time_point start_;
};

const kernels::Fp16* halves_of(const at::Tensor& x) {
  KVC_CHECK(x.is_contiguous() && x.is_cpu(), "exact tokens are not contiguous");
  return reinterpret_cast<const kernels::Fp16*>(x.const_data_ptr<at::Half>());
}

// One row where all heads have the same.
at::Tensor distinct_rows(const at::Tensor& x) { return x.stride(0) == 0 ? x.narrow(0, 0, 1) : x; }

void move_time(StageUse& from, StageUse& to, double encode_seconds, double attend_seconds) {
  from.encode_seconds -= encode_seconds;
  from.attend_seconds -= attend_seconds;
  to.encode_seconds += encode_seconds;
  to.attend_seconds += attend_seconds;
}

}  // namespace

PartCache::PartCache(int first_stage, std::unique_ptr<LayerCache> cache)
    : first_stage_(first_stage),
      cache_(std::move(cache)),
      composed_(dynamic_cast<const ComposedCache*>(cache_.get())),
      split_(dynamic_cast<const SplitAttention*>(cache_.get())) {}
PartCache::PartCache(PartCache&&) noexcept = default;
PartCache::~PartCache() = default;

int64_t PartCache::droppable(int64_t n_tokens) const {
  const auto* drops = dynamic_cast<const DropsTokens*>(cache_.get());
  return drops ? drops->droppable(n_tokens) : 0;
}

void PartCache::drop_oldest(int64_t n_tokens) {
  if (auto* drops = dynamic_cast<DropsTokens*>(cache_.get())) drops->drop_oldest(n_tokens);
}

void PartCache::append(const NewTokens& tokens) {
  const Stopwatch watch(encode_seconds_);
  cache_->append(tokens);
}

at::Tensor PartCache::attend(const at::Tensor& q, double scale) const {
  const Stopwatch watch(attend_seconds_);
  return cache_->attend(q, scale);
}

KeyValue PartCache::gather(Gather what) const {
  if (composed_) return composed_->gather(what);
  if (what == Gather::held) return cache_->dequantize();
  const Stopwatch watch(attend_seconds_);
  return what == Gather::attended ? cache_->attended() : cache_->dequantize();
}

bool PartCache::has_halves(const at::Tensor& q) const {
  return composed_ ? composed_->has_halves(q) : split_ != nullptr;
}

void PartCache::add_scores(const at::Tensor& q, double scale, const at::Tensor& to) const {
  const Stopwatch watch(attend_seconds_);
  composed_ ? composed_->add_scores(q, scale, to) : void(to.add_(split_->scores(q, scale)));
}

at::Tensor PartCache::mix(const at::Tensor& weights) const {
  const Stopwatch watch(attend_seconds_);
  return composed_ ? composed_->mix(weights) : split_->mix(weights);
}

void PartCache::add_to(std::vector<StageUse>& uses) const {
  if (!composed_) {
    auto& use = uses[static_cast<size_t>(first_stage_)];
    use.bytes.add(cache_->footprint());
    move_time(uses[0], use, encode_seconds_, attend_seconds_);
    return;
  }
  const auto inner = composed_->stages();
  uses[0].bytes.add(inner[0].bytes);
  for (size_t i = 1; i < inner.size(); ++i) {
    auto& use = uses[static_cast<size_t>(first_stage_) + i - 1];
    use.bytes.add(inner[i].bytes);
    move_time(uses[0], use, inner[i].encode_seconds, inner[i].attend_seconds);
  }
}

void ComposedCache::append(const NewTokens& tokens) {
  const Stopwatch watch(encode_seconds_);
  append_parts(tokens);
}

at::Tensor ComposedCache::attend(const at::Tensor& q, double scale) const {
  const Stopwatch watch(attend_seconds_);
  return attend_parts(q, scale);
}

LayerCache& ComposedCache::prompt() { throw Error(concat("layer ", layer(), ": the prompt has no cache of one part")); }

KeyValue ComposedCache::attended() const {
  const Stopwatch watch(attend_seconds_);
  return gather(Gather::attended);
}

at::Tensor ComposedCache::attend_parts(const at::Tensor& q, double scale) const {
  if (q.size(1) == 1 && q.device().is_cpu() && has_halves(q)) return attend_in_halves(q, scale);
  return reference_attention(attended_query(q), gather(Gather::attended), positions(), length(), scale, info());
}

at::Tensor ComposedCache::attend_in_halves(const at::Tensor& q, double scale) const {
  const auto held = distinct_rows(positions());
  const int64_t n_held = held.size(1), n_heads = info().n_kv_heads;
  const auto scores = at::zeros({q.size(0), 1, n_held}, at::kFloat);
  add_scores(q, scale, scores);
  const int64_t before_window = info().sliding_window > 0 ? length() - info().sliding_window : 0;
  const auto hidden = held.lt(std::max<int64_t>(0, before_window));
  const auto n_hidden = hidden.sum(1, /*keepdim=*/true);
  const bool first_ones = hidden.equal(at::arange(n_held).lt(n_hidden));
  if (!first_ones) {
    const auto grouped = scores.view({n_heads, -1, 1, n_held});
    const auto weights = attention_weights(grouped, hidden.view({held.size(0), 1, 1, n_held}), info());
    return mix(weights.view({q.size(0), 1, n_held}));
  }
  const auto counts = n_hidden.expand({n_heads, 1}).contiguous();
  const auto sinks = info().sinks.defined() ? info().sinks.to(at::kFloat).contiguous() : at::Tensor();
  for (int64_t h = 0; h < q.size(0); ++h) {
    float* row = scores.mutable_data_ptr<float>() + h * n_held;
    const int64_t n = counts.const_data_ptr<int64_t>()[h / (q.size(0) / n_heads)];
    std::fill_n(row, n, 0.f);
    if (info().logit_softcap > 0) kernels::softcap(row + n, n_held - n, static_cast<float>(info().logit_softcap));
    kernels::softmax(row + n, n_held - n, sinks.defined() ? sinks.const_data_ptr<float>() + h : nullptr);
  }
  return mix(scores);
}

at::Tensor positions_in_turn(const at::Tensor& first, const at::Tensor& rest, int64_t n_before) {
  const bool alike = first.stride(0) == 0 && rest.stride(0) == 0;
  const auto a = alike ? first.narrow(0, 0, 1) : first, b = alike ? rest.narrow(0, 0, 1) : rest;
  return at::cat({a, at::where(b.lt(0), b, b + n_before)}, 1).expand({first.size(0), -1});
}

void add_exact_scores(const at::Tensor& q, const at::Tensor& k, double scale, const at::Tensor& to) {
  constexpr int64_t kBlock = kernels::block_size<kernels::Fp16>();
  const int64_t n_heads = k.size(0), n_tokens = k.size(1), dim = k.size(2),
                padded = (dim + kBlock - 1) / kBlock * kBlock;
  const int64_t n_rows = q.size(0) * q.size(1) / n_heads, stride = to.stride(1);
  const auto scaled = q.to(at::kFloat).mul(scale).contiguous();
  const auto* queries = scaled.const_data_ptr<float>();
  const auto* keys = halves_of(k);
  auto* scores = to.mutable_data_ptr<float>();
  std::vector<float> x(static_cast<size_t>(n_rows * padded));
  for (int64_t h = 0; h < n_heads; ++h, queries += n_rows * dim) {
    for (int64_t r = 0; r < n_rows; ++r) kernels::interleave(queries + r * dim, dim, kBlock, x.data() + r * padded);
    kernels::multiply_rows(x.data(), n_rows, dim, keys + h * n_tokens * dim, 0, n_tokens, scores + h * n_rows * stride,
                           stride);
  }
}

at::Tensor exact_mix(const at::Tensor& weights, const at::Tensor& v) {
  const int64_t n_heads = v.size(0), n_tokens = v.size(1), dim = v.size(2), stride = weights.stride(1);
  const int64_t n_rows = weights.size(0) * weights.size(1) / n_heads;
  auto out = at::zeros({weights.size(0), weights.size(1), dim}, at::kFloat);
  const auto* values = halves_of(v);
  for (int64_t h = 0; h < n_heads; ++h) {
    kernels::mix_rows(weights.const_data_ptr<float>() + h * n_rows * stride, stride, n_rows,
                      values + h * n_tokens * dim, n_tokens, dim, out.mutable_data_ptr<float>() + h * n_rows * dim,
                      dim);
  }
  return out;
}

std::vector<StageUse> ComposedCache::stages() const {
  std::vector<StageUse> uses(static_cast<size_t>(n_stages_) + 1);
  uses[0].encode_seconds = encode_seconds_;
  uses[0].attend_seconds = attend_seconds_;
  add_parts(uses);
  return uses;
}

Footprint ComposedCache::footprint() const {
  Footprint bytes;
  for (const auto& use : stages()) bytes.add(use.bytes);
  return bytes;
}

}  // namespace kvc
