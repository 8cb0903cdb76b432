#include "kvc/quant/compressed_attention.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <numeric>

#include "device_step.h"
#include "exact_rows.h"
#include "kernels/code_products.h"
#include "kernels/outlier_products.h"
#include "kvc/part_timer.h"
#include "kvc/quant/ragged_cache.h"
#include "number_arrays.h"

namespace kvc {

bool CompressedAttention::takes(const at::Tensor& q) {
  static_assert(kMostChannels == kernels::kMaxHeadDim);
  return q.dim() == 3 && q.size(1) == 1 && q.size(2) <= kMostChannels;
}

namespace {

void check_query(const at::Tensor& q, const LayerInfo& info) {
  KVC_CHECK(q.size(0) % info.n_kv_heads == 0 && q.size(2) == info.head_dim, "attend: q is ", q.sizes(),
            ", the cache has ", info.n_kv_heads, " KV heads of ", info.head_dim);
}

// What the model computes in, queries come in.
bool is_half(const at::Tensor& q) { return q.scalar_type() != at::kFloat; }

}  // namespace

CompressedAttention::CompressedAttention(const LayerInfo& info, int64_t group, int64_t n_tokens)
    : n_kv_heads_(info.n_kv_heads),
      group_(group),
      head_dim_(info.head_dim),
      n_tokens_(n_tokens),
      n_hidden_(info.sliding_window > 0 ? std::max<int64_t>(0, n_tokens - info.sliding_window) : 0),
      softcap_(info.logit_softcap),
      sinks_(info.sinks) {}

CompressedAttention::CompressedAttention(const at::Tensor& q, double scale, const LayerInfo& info, int64_t n_tokens)
    : CompressedAttention(info, q.size(0) / info.n_kv_heads, n_tokens) {
  check_query(q, info);
  q_ = q.to(at::kFloat).reshape({q.size(0), q.size(2)}).mul(scale).contiguous();
  scores_ = at::zeros({q.size(0), n_tokens}, q_.options());
  out_ = at::zeros({q.size(0), head_dim_}, q_.options());
  if (!q.is_cpu()) step_ = std::make_shared<on_device::Step>(q.device(), is_half(q));
}

CompressedAttention::CompressedAttention(const at::Tensor& weights, const LayerInfo& info)
    : CompressedAttention(info, weights.size(0) / info.n_kv_heads, weights.size(1)) {
  scores_ = weights.to(at::kFloat).contiguous();
  q_ = at::zeros({weights.size(0), head_dim_}, scores_.options());
  out_ = at::zeros_like(q_);
  if (!scores_.is_cpu()) step_ = std::make_shared<on_device::Step>(scores_.device());
}

std::vector<CompressedAttention> CompressedAttention::of_batch(std::span<const at::Tensor> q, double scale,
                                                               const LayerInfo& info, std::span<const int64_t> n_tokens,
                                                               at::Tensor& out) {
  for (const auto& query : q) check_query(query, info);
  const int64_t n_heads = info.n_heads, n_all = std::accumulate(n_tokens.begin(), n_tokens.end(), int64_t{0});
  const auto options = q.front().options().dtype(at::kFloat);
  const auto n = static_cast<int64_t>(q.size());
  const auto step =
      q.front().is_cpu() ? nullptr : std::make_shared<on_device::Step>(q.front().device(), is_half(q.front()));
  auto queries = at::empty({n, n_heads, info.head_dim}, options), scores = at::empty({n_heads * n_all}, options);
  if (step) {
    step->begin(q, scale, queries, out);
  } else {
    queries = at::stack(at::TensorList(q.data(), q.size())).to(at::kFloat).squeeze(2).mul(scale).contiguous();
    scores.zero_(), out.zero_();
  }
  std::vector<CompressedAttention> batch;
  for (int64_t b = 0, first = 0; b < n; ++b) {
    const int64_t length = n_tokens[static_cast<size_t>(b)];
    CompressedAttention one(info, n_heads / info.n_kv_heads, length);
    one.q_ = queries[b], one.out_ = out[b], one.step_ = step;
    one.scores_ = scores.narrow(0, first, n_heads * length).view({n_heads, length});
    if (step) step->begin_scores(one.scores_);
    first += n_heads * length;
    batch.push_back(std::move(one));
  }
  return batch;
}

namespace {

// Query heads h * group ... of a [H_q, X] tensor, from column `first` on.
kernels::Rows rows_of(at::Tensor& x, int64_t h, int64_t group, int64_t first = 0) {
  return {x.data_ptr<float>() + h * group * x.size(1) + first, x.size(1), group};
}
kernels::ConstRows const_rows_of(const at::Tensor& x, int64_t h, int64_t group, int64_t first = 0) {
  return {x.const_data_ptr<float>() + h * group * x.size(1) + first, x.size(1), group};
}

// Head h of x, n entries a head; one head or one entry stands for all.
NumberArray numbers_of(const at::Tensor& x, int64_t h, int64_t n, NumberType type) {
  const auto* data = static_cast<const char*>(x.const_data_ptr());
  return {data + (x.size(0) == 1 ? 0 : h * n * x.element_size()), type, std::min(n, x.numel())};
}

NumberArray numbers_of(const at::Tensor& x, int64_t h, int64_t n) {
  return x.defined() ? numbers_of(x, h, n, number_type_of(x)) : NumberArray{};
}

kernels::Codes head_of(const GroupCodes& x, int64_t h) {
  const int64_t n_rows = x.codes.size(1), n_words = x.codes.size(2), n_groups = x.scale.size(2);
  const int64_t len = x.format.axis == GroupAxis::tokens ? x.n_tokens : x.head_dim;
  return {.words = x.codes.const_data_ptr<int32_t>() + h * n_rows * n_words,
          .n_words = n_words,
          .scale = numbers_of(x.scale, h, n_rows * n_groups),
          .zero = numbers_of(x.format.symmetric ? at::Tensor() : x.zero, h, n_rows * n_groups),
          .n_groups = n_groups,
          .group_size = len / n_groups,
          .bits = x.format.bits,
          .n_tokens = x.n_tokens,
          .head_dim = x.head_dim,
          .kind = x.format.symmetric ? kernels::CodeKind::centred : kernels::CodeKind::number};
}

// f(i) for each of n heads or parts, which the threads share; n_numbers: of one. Its bits depend on it alone.
template <class F>
void for_each_part(int64_t n, int64_t n_numbers, F f) {
  constexpr int64_t kLeastNumbers = 1 << 17;  // worth waking a thread for: some 20 microseconds
  at::parallel_for(0, n, std::max<int64_t>(1, kLeastNumbers / std::max<int64_t>(1, n_numbers)),
                   [&](int64_t begin, int64_t end) {
                     for (int64_t h = begin; h < end; ++h) f(h);
                   });
}

// No loop reads codes that words break.
bool has_loop(const GroupCodes& x) { return 32 % x.format.bits == 0; }

// Whether the loops can walk these codes: groups along tokens begin at whole words.
void check_alignment(const GroupCodes& x) {
  KVC_CHECK(x.format.axis == GroupAxis::channels || x.format.group_size * x.format.bits % 32 == 0, "attend: groups of ",
            x.format.group_size, " tokens of ", x.format.bits, " bits do not fill whole words");
  KVC_CHECK(x.format.axis == GroupAxis::channels || !x.format.symmetric,
            "attend: symmetric groups along tokens have no direct path");
}

}  // namespace

void CompressedAttention::score(const GroupCodes& k, int64_t first) { score(q_, k, first); }

void CompressedAttention::score(const at::Tensor& q, const GroupCodes& k, int64_t first) {
  const TimedPart timed(WorkPart::quantize);
  const int64_t group = q.size(0) / k.n_heads;
  if (!step_ && !has_loop(k)) {
    const auto products = at::bmm(q.view({k.n_heads, group, -1}), k.dequantize().transpose(1, 2));
    part_of_scores(first, k.n_tokens).add_(products.view({q.size(0), k.n_tokens}));
    return;
  }
  check_alignment(k);
  if (step_) return step_->score(step_->matrix_of(k), q, part_of_scores(first, k.n_tokens), /*fits=*/true);
  for_each_part(k.n_heads, k.n_tokens * k.head_dim, [&](int64_t h) {
    const auto queries = const_rows_of(q, h, group);
    const auto scores = rows_of(scores_, h, group, first);
    k.format.axis == GroupAxis::tokens ? kernels::score_token_groups(head_of(k, h), queries, scores)
                                       : kernels::score_channel_groups(head_of(k, h), queries, scores);
  });
}

void CompressedAttention::accumulate_v(const GroupCodes& v, int64_t first) { accumulate_into(out_, v, first); }

void CompressedAttention::accumulate_v(const GroupCodes& v, int64_t first, at::Tensor sums) {
  accumulate_into(sums, v, first);
}

void CompressedAttention::then(std::function<void()> f) { step_ ? step_->then(std::move(f)) : f(); }

void CompressedAttention::score(const GroupCodes& k, GroupOrder order, at::IntArrayRef sizes, int64_t first) {
  KVC_CHECK(step_, "attend: groups across tokens are read on a device only");
  step_->score(step_->matrix_of(k, order, sizes), q_, part_of_scores(first, sizes[1]));
}

void CompressedAttention::accumulate_v(const GroupCodes& v, GroupOrder order, at::IntArrayRef sizes, int64_t first) {
  KVC_CHECK(step_, "attend: groups across tokens are read on a device only");
  step_->accumulate_v(step_->matrix_of(v, order, sizes), part_of_scores(first, sizes[1]), out_);
}

void CompressedAttention::accumulate_into(at::Tensor& out, const GroupCodes& v, int64_t first) const {
  const TimedPart timed(WorkPart::quantize);
  KVC_CHECK(v.format.axis == GroupAxis::channels || !has_loop(v),
            "attend: V with groups along tokens has no direct path");
  if (step_) return step_->accumulate_v(step_->matrix_of(v), part_of_scores(first, v.n_tokens), out, /*fits=*/true);
  const int64_t group = q_.size(0) / v.n_heads;
  if (!has_loop(v)) {
    const auto weights = part_of_scores(first, v.n_tokens).reshape({v.n_heads, group, v.n_tokens});
    out.add_(at::bmm(weights, v.dequantize()).view_as(out));
    return;
  }
  for_each_part(v.n_heads, v.n_tokens * v.head_dim, [&](int64_t h) {
    kernels::accumulate_channel_groups(head_of(v, h), const_rows_of(scores_, h, group, first), rows_of(out, h, group));
  });
}

void CompressedAttention::add_out(const at::Tensor& out) {
  out_.add_(out);
  if (step_) step_->keep_apart(scores_);
}

namespace {

constexpr int64_t kDecodedTokens = 64;  // at a time, where no loop reads the codes

// Whether the loops can walk these codes: whole words a row and a group.
bool has_loop(const LevelCodes& x) {
  const int64_t group = x.head_dim / x.scale.size(2);
  return 32 % x.book.bits == 0 && (x.book.levels || x.head_dim % 4 == 0) && group * x.book.bits % 32 == 0;
}

kernels::Codes head_of(const LevelCodes& x, int64_t h) {
  const int64_t n_scales = x.scale.size(1) * x.scale.size(2), n_groups = x.scale.size(2);
  const int64_t head_bytes = x.codes.size(1) * x.codes.size(2) * x.codes.element_size();
  return {
      .words = reinterpret_cast<const int32_t*>(static_cast<const char*>(x.codes.const_data_ptr()) + h * head_bytes),
      .n_words = x.codes.size(2) * x.codes.element_size() / 4,
      .scale = numbers_of(x.scale, h, n_scales, scale_type_of(x)),
      .zero = {},
      .n_groups = n_groups,
      .group_size = x.head_dim / n_groups,
      .bits = x.book.bits,
      .n_tokens = x.n_tokens(),
      .head_dim = x.head_dim,
      .kind = x.book.levels              ? kernels::CodeKind::level
              : x.floats == Float8::e4m3 ? kernels::CodeKind::e4m3
                                         : kernels::CodeKind::e5m2,
      .levels = x.book.levels};
}

// f(tile [H, n, D] fp32, its first token), some tokens at a time.
template <class F>
void for_each_tile(const LevelCodes& x, F f) {
  for (int64_t t = 0; t < x.n_tokens(); t += kDecodedTokens) {
    f(x.tokens(t, std::min(kDecodedTokens, x.n_tokens() - t)).dequantize(), t);
  }
}

}  // namespace

void CompressedAttention::score(const LevelCodes& k, int64_t first) {
  const TimedPart timed(WorkPart::quantize);
  auto q = k.factor == 1 ? q_ : q_.mul(k.factor);
  if (k.global.defined()) q = q.mul(k.global);
  if (step_) return step_->score(step_->matrix_of(k), q, part_of_scores(first, k.n_tokens()));
  if (!has_loop(k)) return for_each_tile(k, [&](const at::Tensor& tile, int64_t t) { score(tile, first + t); });
  for_each_part(n_kv_heads_, k.n_tokens() * head_dim_, [&](int64_t h) {
    kernels::score_channel_groups(head_of(k, h), const_rows_of(q, h, group_), rows_of(scores_, h, group_, first));
  });
}

// Factors are the sums', so that weights that are not there yet stay as they are.
void CompressedAttention::accumulate_on_device(const LevelCodes& v, int64_t first) {
  const bool plain = v.factor == 1 && !v.global.defined();
  const auto sums = plain ? out_ : at::zeros_like(out_);
  step_->accumulate_v(step_->matrix_of(v), part_of_scores(first, v.n_tokens()), sums);
  if (plain) return;
  step_->then([out = out_, sums, factor = v.factor, global = v.global] {
    out.add_(global.defined() ? sums.mul(global) : sums, factor);
  });
}

void CompressedAttention::accumulate_v(const LevelCodes& v, int64_t first) {
  const TimedPart timed(WorkPart::quantize);
  if (step_) return accumulate_on_device(v, first);
  if (!has_loop(v)) return for_each_tile(v, [&](const at::Tensor& tile, int64_t t) { accumulate_v(tile, first + t); });
  const double factor = v.global.defined() ? v.factor * v.global.item<double>() : v.factor;
  auto sums = factor == 1 ? out_ : at::zeros_like(out_);
  for_each_part(n_kv_heads_, v.n_tokens() * head_dim_, [&](int64_t h) {
    kernels::accumulate_channel_groups(head_of(v, h), const_rows_of(scores_, h, group_, first),
                                       rows_of(sums, h, group_));
  });
  if (factor != 1) out_.add_(sums, factor);
}

namespace {

// a [H, n, r], or codes of it, as the loops read it.
at::Tensor long_factor(const LowRank& x) { return x.a_scale.defined() ? x.a_floats() : x.a; }

kernels::Factors factors_of(const at::Tensor& a, int64_t h) {
  return {.entries = numbers_of(a, h, a.size(1) * a.size(2)), .n_tokens = a.size(1), .rank = a.size(2)};
}

}  // namespace

// (q B) A^T
void CompressedAttention::score(const LowRank& k, int64_t first) {
  const TimedPart timed(WorkPart::low_rank);
  if (!k.a.defined()) return;
  const auto a = long_factor(k), b = k.b_floats();
  const int64_t r = a.size(2);
  if (step_) {
    const auto down = at::bmm(q_.view({n_kv_heads_, group_, head_dim_}), b).flatten(0, 1);
    return step_->score(step_->matrix_of(a), down, part_of_scores(first, a.size(1)));
  }
  for_each_part(n_kv_heads_, a.size(1) * r, [&](int64_t h) {
    const float* right = b.const_data_ptr<float>() + h * head_dim_ * r;
    const auto q = const_rows_of(q_, h, group_);
    const auto scores = rows_of(scores_, h, group_, first);
    for (int64_t i = 0; i < group_; ++i) {
      std::vector<float> down(static_cast<size_t>(r));
      for (int64_t j = 0; j < head_dim_; ++j) {
        for (int64_t l = 0; l < r; ++l) down[l] += q.data[i * q.stride + j] * right[j * r + l];
      }
      kernels::score_factors(factors_of(a, h), down.data(), scores.data + i * scores.stride);
    }
  });
}

// (w A) B^T
void CompressedAttention::accumulate_v(const LowRank& v, int64_t first) {
  const TimedPart timed(WorkPart::low_rank);
  if (!v.a.defined()) return;
  const auto a = long_factor(v), b = v.b_floats();
  const int64_t r = a.size(2);
  if (step_) {
    const auto down = at::zeros({q_.size(0), r}, q_.options());
    step_->accumulate_v(step_->matrix_of(a), part_of_scores(first, a.size(1)), down);
    step_->then([out = out_, down = down.view({n_kv_heads_, group_, r}), b] {
      out.add_(at::bmm(down, b.transpose(1, 2)).flatten(0, 1));
    });
    return;
  }
  for_each_part(n_kv_heads_, a.size(1) * r, [&](int64_t h) {
    const float* right = b.const_data_ptr<float>() + h * head_dim_ * r;
    const auto weights = const_rows_of(scores_, h, group_, first);
    const auto out = rows_of(out_, h, group_);
    for (int64_t i = 0; i < group_; ++i) {
      std::vector<float> down(static_cast<size_t>(r));
      kernels::accumulate_factors(factors_of(a, h), weights.data + i * weights.stride, down.data());
      for (int64_t j = 0; j < head_dim_; ++j) {
        float sum = 0;
        for (int64_t l = 0; l < r; ++l) sum += down[l] * right[j * r + l];
        out.data[i * out.stride + j] += sum;
      }
    }
  });
}

namespace {

constexpr int64_t kOutlierTokens = 2048;  // whose mixture is summed before it is added to the others'

kernels::Entries entries_of(const Outliers& x) {
  return {.values = numbers_of(x.values, 0, x.values.numel()),
          .index = x.index.const_data_ptr(),
          .wide = x.index.scalar_type() == at::kUInt16,
          .per_vector = x.index.size(-1)};
}

kernels::TokenEntries part_of(kernels::TokenEntries all, int64_t part) {
  all.first = part * kOutlierTokens;
  all.end = std::min(all.end, all.first + kOutlierTokens);
  return all;
}

}  // namespace

void CompressedAttention::score(const Outliers& k, int64_t first, int64_t n_tokens) {
  const TimedPart timed(WorkPart::sparse);
  if (!k.index.defined()) return;
  if (step_) {
    return step_->score(step_->entries_of(k, n_kv_heads_, head_dim_), q_, part_of_scores(first, n_tokens));
  }
  const auto entries = entries_of(k);
  const float* q = q_.const_data_ptr<float>();
  float* scores = scores_.data_ptr<float>() + first;
  if (k.axis == GroupAxis::tokens) {
    for_each_part(n_kv_heads_, head_dim_ * entries.per_vector, [&](int64_t h) {
      for (int64_t i = h * group_; i < (h + 1) * group_; ++i) {
        kernels::score_channel_entries(entries, h * head_dim_, head_dim_, q + i * head_dim_, scores + i * n_tokens_);
      }
    });
    return;
  }
  const int64_t n = k.index.size(0);
  const kernels::TokenEntries all{entries, 0, n, n_kv_heads_, group_, head_dim_, n_tokens_};
  for_each_part((n + kOutlierTokens - 1) / kOutlierTokens, kOutlierTokens * entries.per_vector,
                [&](int64_t part) { kernels::score_token_entries(part_of(all, part), q, scores); });
}

void CompressedAttention::accumulate_v(const Outliers& v, int64_t first) {
  const TimedPart timed(WorkPart::sparse);
  if (!v.index.defined()) return;
  if (step_) {
    const auto entries = step_->entries_of(v, n_kv_heads_, head_dim_);
    return step_->accumulate_v(entries, part_of_scores(first, n_tokens_ - first), out_);
  }
  const auto entries = entries_of(v);
  const float* weights = scores_.const_data_ptr<float>() + first;
  if (v.axis == GroupAxis::tokens) {
    float* out = out_.data_ptr<float>();
    for_each_part(n_kv_heads_, head_dim_ * entries.per_vector, [&](int64_t h) {
      for (int64_t i = h * group_; i < (h + 1) * group_; ++i) {
        kernels::accumulate_channel_entries(entries, h * head_dim_, head_dim_, weights + i * n_tokens_,
                                            out + i * head_dim_);
      }
    });
    return;
  }
  const int64_t n = v.index.size(0), n_parts = (n + kOutlierTokens - 1) / kOutlierTokens;
  const kernels::TokenEntries all{entries, 0, n, n_kv_heads_, group_, head_dim_, n_tokens_};
  const auto parts = at::zeros({n_parts, out_.size(0), head_dim_}, at::kFloat);
  for_each_part(n_parts, kOutlierTokens * entries.per_vector, [&](int64_t part) {
    kernels::accumulate_token_entries(part_of(all, part), weights,
                                      parts.mutable_data_ptr<float>() + part * out_.numel());
  });
  for (int64_t part = 0; part < n_parts; ++part) out_.add_(parts[part]);
}

namespace {

// f(block, its first token) of tokens from `first` on
template <class F>
void for_each_block(const TokenBlocks& x, int64_t first, F f) {
  for (const auto& block : x.blocks()) {
    f(block, first);
    first += block.size(1);
  }
}

}  // namespace

void CompressedAttention::score(const TokenBlocks& k, int64_t first) {
  if (k.blocks().empty()) return;
  if (step_) return for_each_block(k, first, [&](const at::Tensor& block, int64_t t) { score(block, t); });
  const int64_t n_held = k.blocks().front().size(0), group = q_.size(0) / n_held;
  for_each_part(n_held, k.n_tokens() * head_dim_, [&](int64_t h) {
    const InterleavedQueries queries(q_.const_data_ptr<float>() + h * group * head_dim_, group, head_dim_,
                                     k.blocks().front().scalar_type());
    const auto scores = rows_of(scores_, h, group, first);
    for_each_rows(k, h, [&](const auto* rows, int64_t n, int64_t t) {
      kernels::multiply_rows(queries.data(), group, head_dim_, rows, 0, n, scores.data + t, scores.stride);
    });
  });
}

void CompressedAttention::accumulate_v(const TokenBlocks& v, int64_t first) {
  if (v.blocks().empty()) return;
  if (step_) return for_each_block(v, first, [&](const at::Tensor& block, int64_t t) { accumulate_v(block, t); });
  const int64_t n_held = v.blocks().front().size(0), group = q_.size(0) / n_held;
  for_each_part(n_held, v.n_tokens() * head_dim_, [&](int64_t h) {
    const auto weights = const_rows_of(scores_, h, group, first);
    const auto out = rows_of(out_, h, group);
    for_each_rows(v, h, [&](const auto* rows, int64_t n, int64_t t) {
      kernels::mix_rows(weights.data + t, weights.stride, group, rows, n, head_dim_, out.data, out.stride);
    });
  });
}

void CompressedAttention::score(const at::Tensor& k, int64_t first) {
  if (step_) return step_->score(step_->matrix_of(k), q_, part_of_scores(first, k.size(1)), /*fits=*/true);
  const int64_t n_held = k.size(0), group = q_.size(0) / n_held;
  for_each_part(n_held, k.size(1) * head_dim_, [&](int64_t h) {
    const InterleavedQueries queries(q_.const_data_ptr<float>() + h * group * head_dim_, group, head_dim_,
                                     k.scalar_type());
    const auto scores = rows_of(scores_, h, group, first);
    with_rows(k, h, [&](const auto* rows) {
      kernels::multiply_rows(queries.data(), group, head_dim_, rows, 0, k.size(1), scores.data, scores.stride);
    });
  });
}

void CompressedAttention::accumulate_v(const at::Tensor& v, int64_t first) {
  if (step_) return step_->accumulate_v(step_->matrix_of(v), part_of_scores(first, v.size(1)), out_, /*fits=*/true);
  const int64_t n_held = v.size(0), group = q_.size(0) / n_held;
  for_each_part(n_held, v.size(1) * head_dim_, [&](int64_t h) {
    const auto weights = const_rows_of(scores_, h, group, first);
    const auto out = rows_of(out_, h, group);
    with_rows(v, h, [&](const auto* rows) {
      kernels::mix_rows(weights.data, weights.stride, group, rows, v.size(1), head_dim_, out.data, out.stride);
    });
  });
}

void CompressedAttention::score(const StoredTokens& k, int64_t first) {
  for (const auto& block : k.codes.blocks()) {
    score(block, first);
    first += block.n_tokens;
  }
  score(k.recent, first);
}

void CompressedAttention::accumulate_v(const StoredTokens& v, int64_t first) {
  for (const auto& block : v.codes.blocks()) {
    accumulate_v(block, first);
    first += block.n_tokens;
  }
  accumulate_v(v.recent, first);
}

void CompressedAttention::score(const RaggedTokens& k, int64_t first) {
  if (k.n_heads() == 0) return;
  const auto column = [&](int64_t h) { return first + k.longest() - k.count(h); };
  for (int64_t h = 0; step_ && h < k.n_heads(); ++h) {
    step_->score(step_->matrix_of(k.rows().narrow(1, k.first_row(h), k.count(h))), q_.narrow(0, h * group_, group_),
                 part_of_scores(column(h), k.count(h)).narrow(0, h * group_, group_));
  }
  if (step_) return;
  for_each_part(k.n_heads(), k.longest() * head_dim_, [&](int64_t h) {
    const InterleavedQueries queries(q_.const_data_ptr<float>() + h * group_ * head_dim_, group_, head_dim_,
                                     k.rows().scalar_type());
    const auto scores = rows_of(scores_, h, group_, column(h));
    with_rows(k.rows(), 0, [&](const auto* rows) {
      kernels::multiply_rows(queries.data(), group_, head_dim_, rows + k.first_row(h) * head_dim_, 0, k.count(h),
                             scores.data, scores.stride);
    });
  });
}

void CompressedAttention::accumulate_v(const RaggedTokens& v, int64_t first) {
  if (v.n_heads() == 0) return;
  const auto column = [&](int64_t h) { return first + v.longest() - v.count(h); };
  if (step_) {
    const auto sums = at::zeros_like(out_);
    for (int64_t h = 0; h < v.n_heads(); ++h) {
      step_->accumulate_v(step_->matrix_of(v.rows().narrow(1, v.first_row(h), v.count(h))),
                          part_of_scores(column(h), v.count(h)).narrow(0, h * group_, group_),
                          sums.narrow(0, h * group_, group_));
    }
    return step_->then([out = out_, sums] { out.add_(sums); });
  }
  for_each_part(v.n_heads(), v.longest() * head_dim_, [&](int64_t h) {
    const auto weights = const_rows_of(scores_, h, group_, column(h));
    const auto out = rows_of(out_, h, group_);
    with_rows(v.rows(), 0, [&](const auto* rows) {
      kernels::mix_rows(weights.data, weights.stride, group_, rows + v.first_row(h) * head_dim_, v.count(h), head_dim_,
                        out.data, out.stride);
    });
  });
}

void CompressedAttention::add_scores(const at::Tensor& scores, int64_t first) {
  if (step_) step_->set_scores_to_zero();
  scores_.narrow(1, first, scores.size(1)).add_(scores);
  if (step_) step_->keep_apart(scores_);
}

at::Tensor CompressedAttention::part_of_scores(int64_t first, int64_t n_tokens) const {
  return scores_.narrow(1, first, n_tokens);
}

void CompressedAttention::run() const {
  if (step_) step_->run();
}

const at::Tensor& CompressedAttention::weights() const {
  run();
  KVC_CHECK(!step_ || step_->has_weights(scores_), "attend: weights() asked for after accumulate_v() and out()");
  return scores_;
}

at::Tensor CompressedAttention::weights(int64_t first, int64_t n_tokens) const {
  return weights().narrow(1, first, n_tokens);
}

void CompressedAttention::softmax() { softmax(std::vector<int64_t>(static_cast<size_t>(n_kv_heads_), n_hidden_)); }

void CompressedAttention::softmax(std::span<const int64_t> n_hidden) {
  KVC_CHECK(!sinks_.defined() || sinks_.numel() == scores_.size(0), "attend: ", sinks_.numel(), " sinks for ",
            scores_.size(0), " query heads");
  if (step_) return step_->softmax(scores_, n_hidden, softcap_, sinks_);
  float* all = scores_.data_ptr<float>();
  const float* sinks = sinks_.defined() ? sinks_.const_data_ptr<float>() : nullptr;
  for_each_part(scores_.size(0), n_tokens_ * 16, [&](int64_t i) {  // an exponential costs as much as some products
    const int64_t hidden = n_hidden[static_cast<size_t>(i / group_)];
    float* scores = all + i * n_tokens_;
    std::fill(scores, scores + hidden, 0.f);
    if (softcap_ > 0) kernels::softcap(scores + hidden, n_tokens_ - hidden, static_cast<float>(softcap_));
    kernels::softmax(scores + hidden, n_tokens_ - hidden, sinks ? sinks + i : nullptr);
  });
}

at::Tensor CompressedAttention::out() const {
  run();
  return out_.unsqueeze(1);
}

}  // namespace kvc
