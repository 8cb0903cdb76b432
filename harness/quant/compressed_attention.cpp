#include "kvc/quant/compressed_attention.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>

#include "exact_rows.h"
#include "kernels/code_products.h"
#include "kvc/part_timer.h"

namespace kvc {

bool CompressedAttention::takes(const at::Tensor& q) {
  return q.is_cpu() && q.dim() == 3 && q.size(1) == 1 && q.size(2) <= kernels::kMaxHeadDim;
}

CompressedAttention::CompressedAttention(const at::Tensor& q, double scale, const LayerInfo& info, int64_t n_tokens)
    : n_kv_heads_(info.n_kv_heads),
      group_(q.size(0) / info.n_kv_heads),
      head_dim_(info.head_dim),
      n_tokens_(n_tokens),
      n_hidden_(info.sliding_window > 0 ? std::max<int64_t>(0, n_tokens - info.sliding_window) : 0),
      q_(q.to(at::kFloat).reshape({q.size(0), q.size(2)}).mul(scale).contiguous()),
      scores_(at::zeros({q.size(0), n_tokens}, at::kFloat)),
      out_(at::zeros({q.size(0), head_dim_}, at::kFloat)) {
  KVC_CHECK(q.size(0) % n_kv_heads_ == 0 && q.size(2) == head_dim_, "attend: q is ", q.sizes(), ", the cache has ",
            n_kv_heads_, " KV heads of ", head_dim_);
}

namespace {

// n entries of x from `offset` on as fp32: x's own memory, or a copy in scratch.
const float* floats(const at::Tensor& x, int64_t offset, int64_t n, std::vector<float>& scratch) {
  if (x.scalar_type() == at::kFloat) return x.const_data_ptr<float>() + offset;
  scratch.resize(static_cast<size_t>(n));
  kernels::to_float(static_cast<const uint16_t*>(x.const_data_ptr()) + offset, n, scratch.data());
  return scratch.data();
}

// Query heads h * group ... of a [H_q, X] tensor, from column `first` on.
kernels::Rows rows_of(at::Tensor& x, int64_t h, int64_t group, int64_t first = 0) {
  return {x.data_ptr<float>() + h * group * x.size(1) + first, x.size(1), group};
}
kernels::ConstRows const_rows_of(const at::Tensor& x, int64_t h, int64_t group, int64_t first = 0) {
  return {x.const_data_ptr<float>() + h * group * x.size(1) + first, x.size(1), group};
}

kernels::Sides sides_of(const at::Tensor& x, int64_t h, int64_t n) {
  if (!x.defined()) return {};
  const bool half = x.scalar_type() == at::kHalf;
  const auto* data = static_cast<const char*>(x.const_data_ptr());
  return {data + (x.size(0) == 1 ? 0 : h * n * x.element_size()), half, std::min(n, x.numel())};
}

kernels::Codes head_of(const GroupCodes& x, int64_t h) {
  const int64_t n_rows = x.codes.size(1), n_words = x.codes.size(2), n_groups = x.scale.size(2);
  const int64_t len = x.format.axis == GroupAxis::tokens ? x.n_tokens : x.head_dim;
  return {.words = x.codes.const_data_ptr<int32_t>() + h * n_rows * n_words,
          .n_words = n_words,
          .scale = sides_of(x.scale, h, n_rows * n_groups),
          .zero = sides_of(x.format.symmetric ? at::Tensor() : x.zero, h, n_rows * n_groups),
          .n_groups = n_groups,
          .group_size = len / n_groups,
          .bits = x.format.bits,
          .n_tokens = x.n_tokens,
          .head_dim = x.head_dim,
          .middle = x.format.symmetric ? static_cast<float>((1 << (x.format.bits - 1)) - 1) : 0.f};
}

// f(head) for each of n heads, which the threads share; n_numbers: a head's. A head's bits depend on it alone.
template <class F>
void for_each_head(int64_t n, int64_t n_numbers, F f) {
  constexpr int64_t kLeastNumbers = 1 << 17;  // worth waking a thread for: some 20 microseconds
  at::parallel_for(0, n, std::max<int64_t>(1, kLeastNumbers / std::max<int64_t>(1, n_numbers)),
                   [&](int64_t begin, int64_t end) {
                     for (int64_t h = begin; h < end; ++h) f(h);
                   });
}

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
  check_alignment(k);
  const int64_t group = q.size(0) / k.n_heads;
  for_each_head(k.n_heads, k.n_tokens * k.head_dim, [&](int64_t h) {
    const auto queries = const_rows_of(q, h, group);
    const auto scores = rows_of(scores_, h, group, first);
    k.format.axis == GroupAxis::tokens ? kernels::score_token_groups(head_of(k, h), queries, scores)
                                       : kernels::score_channel_groups(head_of(k, h), queries, scores);
  });
}

void CompressedAttention::weigh(const GroupCodes& v, int64_t first) { weigh_into(out_, v, first); }

at::Tensor CompressedAttention::weighed(const GroupCodes& v, int64_t first) const {
  auto out = at::zeros({q_.size(0), v.head_dim}, at::kFloat);
  weigh_into(out, v, first);
  return out;
}

void CompressedAttention::weigh_into(at::Tensor& out, const GroupCodes& v, int64_t first) const {
  const TimedPart timed(WorkPart::quantize);
  KVC_CHECK(v.format.axis == GroupAxis::channels, "attend: V with groups along tokens has no direct path");
  const int64_t group = q_.size(0) / v.n_heads;
  for_each_head(v.n_heads, v.n_tokens * v.head_dim, [&](int64_t h) {
    kernels::weigh_channel_groups(head_of(v, h), const_rows_of(scores_, h, group, first), rows_of(out, h, group));
  });
}

void CompressedAttention::add_out(const at::Tensor& out) { out_.add_(out); }

namespace {

// a [H, n, r], or codes of it, as the loops read it.
at::Tensor long_factor(const LowRank& x) { return x.a_scale.defined() ? x.a_floats() : x.a; }

kernels::Factors factors_of(const at::Tensor& a, int64_t h) {
  return {.entries = sides_of(a, h, a.size(1) * a.size(2)), .n_tokens = a.size(1), .rank = a.size(2)};
}

}  // namespace

// (q B) A^T
void CompressedAttention::score(const LowRank& k, int64_t first) {
  const TimedPart timed(WorkPart::low_rank);
  if (!k.a.defined()) return;
  const auto a = long_factor(k), b = k.b_floats();
  const int64_t r = a.size(2);
  for_each_head(n_kv_heads_, a.size(1) * r, [&](int64_t h) {
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
void CompressedAttention::weigh(const LowRank& v, int64_t first) {
  const TimedPart timed(WorkPart::low_rank);
  if (!v.a.defined()) return;
  const auto a = long_factor(v), b = v.b_floats();
  const int64_t r = a.size(2);
  for_each_head(n_kv_heads_, a.size(1) * r, [&](int64_t h) {
    const float* right = b.const_data_ptr<float>() + h * head_dim_ * r;
    const auto weights = const_rows_of(scores_, h, group_, first);
    const auto out = rows_of(out_, h, group_);
    for (int64_t i = 0; i < group_; ++i) {
      std::vector<float> down(static_cast<size_t>(r));
      kernels::weigh_factors(factors_of(a, h), weights.data + i * weights.stride, down.data());
      for (int64_t j = 0; j < head_dim_; ++j) {
        float sum = 0;
        for (int64_t l = 0; l < r; ++l) sum += down[l] * right[j * r + l];
        out.data[i * out.stride + j] += sum;
      }
    }
  });
}

namespace {

// Calls f(head, token, channel, value) for each outlier.
template <class F>
void for_each_outlier(const Outliers& s, const float* values, int64_t head_dim, F f) {
  const int64_t per_vector = s.index.size(-1), n_vectors = s.index.numel() / per_vector;
  const bool wide = s.index.scalar_type() == at::kUInt16;
  const auto* narrow_index = static_cast<const uint8_t*>(s.index.const_data_ptr());
  const auto* wide_index = static_cast<const uint16_t*>(s.index.const_data_ptr());
  for (int64_t vector = 0, e = 0; vector < n_vectors; ++vector) {
    for (int64_t end = e + per_vector; e < end; ++e) {
      const int64_t at = wide ? wide_index[e] : narrow_index[e];
      if (s.axis == GroupAxis::tokens) {
        f(vector / head_dim, at, vector % head_dim, values[e]);
      } else {
        f(at / head_dim, vector, at % head_dim, values[e]);
      }
    }
  }
}

}  // namespace

void CompressedAttention::score(const Outliers& k, int64_t first) {
  const TimedPart timed(WorkPart::sparse);
  if (!k.index.defined()) return;
  const float* q = q_.const_data_ptr<float>();
  float* scores = scores_.data_ptr<float>() + first;
  for_each_outlier(k, floats(k.values, 0, k.values.numel(), scratch_), head_dim_,
                   [&](int64_t h, int64_t t, int64_t j, float value) {
                     for (int64_t i = h * group_; i < (h + 1) * group_; ++i) {
                       scores[i * n_tokens_ + t] += q[i * head_dim_ + j] * value;
                     }
                   });
}

void CompressedAttention::weigh(const Outliers& v, int64_t first) {
  const TimedPart timed(WorkPart::sparse);
  if (!v.index.defined()) return;
  const float* weights = scores_.const_data_ptr<float>() + first;
  float* out = out_.data_ptr<float>();
  for_each_outlier(v, floats(v.values, 0, v.values.numel(), scratch_), head_dim_,
                   [&](int64_t h, int64_t t, int64_t j, float value) {
                     for (int64_t i = h * group_; i < (h + 1) * group_; ++i) {
                       out[i * head_dim_ + j] += weights[i * n_tokens_ + t] * value;
                     }
                   });
}

void CompressedAttention::score(const TokenBlocks& k, int64_t first) {
  if (k.blocks().empty()) return;
  const int64_t n_held = k.blocks().front().size(0), group = q_.size(0) / n_held;
  for_each_head(n_held, k.n_tokens() * head_dim_, [&](int64_t h) {
    const InterleavedQueries queries(q_.const_data_ptr<float>() + h * group * head_dim_, group, head_dim_,
                                     k.blocks().front().scalar_type());
    const auto scores = rows_of(scores_, h, group, first);
    for_each_rows(k, h, [&](const auto* rows, int64_t n, int64_t t) {
      kernels::multiply_rows(queries.data(), group, head_dim_, rows, 0, n, scores.data + t, scores.stride);
    });
  });
}

void CompressedAttention::weigh(const TokenBlocks& v, int64_t first) {
  if (v.blocks().empty()) return;
  const int64_t n_held = v.blocks().front().size(0), group = q_.size(0) / n_held;
  for_each_head(n_held, v.n_tokens() * head_dim_, [&](int64_t h) {
    const auto weights = const_rows_of(scores_, h, group, first);
    const auto out = rows_of(out_, h, group);
    for_each_rows(v, h, [&](const auto* rows, int64_t n, int64_t t) {
      kernels::mix_rows(weights.data + t, weights.stride, group, rows, n, head_dim_, out.data, out.stride);
    });
  });
}

void CompressedAttention::score(const at::Tensor& k, int64_t first) {
  const int64_t n_held = k.size(0), group = q_.size(0) / n_held;
  for_each_head(n_held, k.size(1) * head_dim_, [&](int64_t h) {
    const InterleavedQueries queries(q_.const_data_ptr<float>() + h * group * head_dim_, group, head_dim_,
                                     k.scalar_type());
    const auto scores = rows_of(scores_, h, group, first);
    with_rows(k, h, [&](const auto* rows) {
      kernels::multiply_rows(queries.data(), group, head_dim_, rows, 0, k.size(1), scores.data, scores.stride);
    });
  });
}

void CompressedAttention::weigh(const at::Tensor& v, int64_t first) {
  const int64_t n_held = v.size(0), group = q_.size(0) / n_held;
  for_each_head(n_held, v.size(1) * head_dim_, [&](int64_t h) {
    const auto weights = const_rows_of(scores_, h, group, first);
    const auto out = rows_of(out_, h, group);
    with_rows(v, h, [&](const auto* rows) {
      kernels::mix_rows(weights.data, weights.stride, group, rows, v.size(1), head_dim_, out.data, out.stride);
    });
  });
}

void CompressedAttention::add_scores(const at::Tensor& scores, int64_t first) {
  scores_.narrow(1, first, scores.size(1)).add_(scores);
}

at::Tensor CompressedAttention::weights(int64_t first, int64_t n_tokens) const {
  return scores_.narrow(1, first, n_tokens);
}

void CompressedAttention::softmax() { softmax(std::vector<int64_t>(static_cast<size_t>(n_kv_heads_), n_hidden_)); }

void CompressedAttention::softmax(std::span<const int64_t> n_hidden) {
  float* all = scores_.data_ptr<float>();
  for_each_head(scores_.size(0), n_tokens_ * 16, [&](int64_t i) {  // an exponential costs as much as some products
    const int64_t hidden = n_hidden[static_cast<size_t>(i / group_)];
    float* scores = all + i * n_tokens_;
    std::fill(scores, scores + hidden, 0.f);
    kernels::softmax(scores + hidden, n_tokens_ - hidden);
  });
}

at::Tensor CompressedAttention::out() const { return out_.unsqueeze(1); }

}  // namespace kvc
