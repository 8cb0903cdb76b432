#include "kvc/quant/compressed_attention.h"

#include <ATen/ATen.h>

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

// Head h of x; a and b hold its scales and zeros where they are not held as the loops read them.
kernels::Codes head_of(const GroupCodes& x, int64_t h, std::vector<float>& a, std::vector<float>& b) {
  const int64_t n_rows = x.codes.size(1), n_words = x.codes.size(2), n_groups = x.scale.size(2);
  const int64_t len = x.format.axis == GroupAxis::tokens ? x.n_tokens : x.head_dim;
  const int64_t side = n_rows * n_groups, offset = x.scale.size(0) == 1 ? 0 : h * side;
  const float* scale = floats(x.scale, offset, x.format.merge_tokens ? 1 : side, a);
  if (x.format.merge_tokens) {
    a.assign(static_cast<size_t>(side), *scale);
    scale = a.data();
  }
  const float* zero = nullptr;
  if (x.format.symmetric) {
    b.assign(static_cast<size_t>(side), 0.f);
    zero = b.data();
  } else {
    zero = floats(x.zero, offset, side, b);
  }
  return {.words = x.codes.const_data_ptr<int32_t>() + h * n_rows * n_words,
          .n_words = n_words,
          .scale = scale,
          .zero = zero,
          .n_groups = n_groups,
          .group_size = len / n_groups,
          .bits = x.format.bits,
          .n_tokens = x.n_tokens,
          .head_dim = x.head_dim,
          .middle = x.format.symmetric ? static_cast<float>((1 << (x.format.bits - 1)) - 1) : 0.f};
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
  for (int64_t h = 0; h < k.n_heads; ++h) {
    const auto head = head_of(k, h, scratch_a_, scratch_b_);
    const auto queries = const_rows_of(q, h, group);
    const auto scores = rows_of(scores_, h, group, first);
    k.format.axis == GroupAxis::tokens ? kernels::score_token_groups(head, queries, scores)
                                       : kernels::score_channel_groups(head, queries, scores);
  }
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
  for (int64_t h = 0; h < v.n_heads; ++h) {
    const auto head = head_of(v, h, scratch_a_, scratch_b_);
    kernels::weigh_channel_groups(head, const_rows_of(scores_, h, group, first), rows_of(out, h, group));
  }
}

void CompressedAttention::add_out(const at::Tensor& out) { out_.add_(out); }

// (q B) A^T
void CompressedAttention::score(const LowRank& k, int64_t first) {
  const TimedPart timed(WorkPart::low_rank);
  if (!k.a.defined()) return;
  const int64_t n = k.a.size(1), d = k.b.size(1), r = k.a.size(2);
  const auto left = k.a_floats(), right = k.b_floats();
  std::vector<float> down(static_cast<size_t>(r));
  for (int64_t h = 0; h < n_kv_heads_; ++h) {
    const float *a = left.const_data_ptr<float>() + h * n * r, *b = right.const_data_ptr<float>() + h * d * r;
    const auto q = const_rows_of(q_, h, group_);
    const auto scores = rows_of(scores_, h, group_, first);
    for (int64_t i = 0; i < group_; ++i) {
      std::fill(down.begin(), down.end(), 0.f);
      for (int64_t j = 0; j < d; ++j) {
        for (int64_t l = 0; l < r; ++l) down[l] += q.data[i * q.stride + j] * b[j * r + l];
      }
      for (int64_t t = 0; t < n; ++t) {
        float sum = 0;
        for (int64_t l = 0; l < r; ++l) sum += down[l] * a[t * r + l];
        scores.data[i * scores.stride + t] += sum;
      }
    }
  }
}

// (w A) B^T
void CompressedAttention::weigh(const LowRank& v, int64_t first) {
  const TimedPart timed(WorkPart::low_rank);
  if (!v.a.defined()) return;
  const int64_t n = v.a.size(1), d = v.b.size(1), r = v.a.size(2);
  const auto left = v.a_floats(), right = v.b_floats();
  std::vector<float> down(static_cast<size_t>(r));
  for (int64_t h = 0; h < n_kv_heads_; ++h) {
    const float *a = left.const_data_ptr<float>() + h * n * r, *b = right.const_data_ptr<float>() + h * d * r;
    const auto weights = const_rows_of(scores_, h, group_, first);
    const auto out = rows_of(out_, h, group_);
    for (int64_t i = 0; i < group_; ++i) {
      std::fill(down.begin(), down.end(), 0.f);
      for (int64_t t = 0; t < n; ++t) {
        for (int64_t l = 0; l < r; ++l) down[l] += weights.data[i * weights.stride + t] * a[t * r + l];
      }
      for (int64_t j = 0; j < d; ++j) {
        float sum = 0;
        for (int64_t l = 0; l < r; ++l) sum += down[l] * b[j * r + l];
        out.data[i * out.stride + j] += sum;
      }
    }
  }
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
  for_each_outlier(k, floats(k.values, 0, k.values.numel(), scratch_a_), head_dim_,
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
  for_each_outlier(v, floats(v.values, 0, v.values.numel(), scratch_a_), head_dim_,
                   [&](int64_t h, int64_t t, int64_t j, float value) {
                     for (int64_t i = h * group_; i < (h + 1) * group_; ++i) {
                       out[i * head_dim_ + j] += weights[i * n_tokens_ + t] * value;
                     }
                   });
}

void CompressedAttention::score(const TokenBlocks& k, int64_t first) {
  if (k.blocks().empty()) return;
  const int64_t n_held = k.blocks().front().size(0), group = q_.size(0) / n_held;
  for (int64_t h = 0; h < n_held; ++h) {
    const InterleavedQueries queries(q_.const_data_ptr<float>() + h * group * head_dim_, group, head_dim_,
                                     k.blocks().front().scalar_type());
    const auto scores = rows_of(scores_, h, group, first);
    for_each_rows(k, h, [&](const auto* rows, int64_t n, int64_t t) {
      kernels::multiply_rows(queries.data(), group, head_dim_, rows, 0, n, scores.data + t, scores.stride);
    });
  }
}

void CompressedAttention::weigh(const TokenBlocks& v, int64_t first) {
  if (v.blocks().empty()) return;
  const int64_t n_held = v.blocks().front().size(0), group = q_.size(0) / n_held;
  for (int64_t h = 0; h < n_held; ++h) {
    const auto weights = const_rows_of(scores_, h, group, first);
    const auto out = rows_of(out_, h, group);
    for_each_rows(v, h, [&](const auto* rows, int64_t n, int64_t t) {
      kernels::mix_rows(weights.data + t, weights.stride, group, rows, n, head_dim_, out.data, out.stride);
    });
  }
}

void CompressedAttention::score(const at::Tensor& k, int64_t first) {
  const int64_t n_held = k.size(0), group = q_.size(0) / n_held;
  for (int64_t h = 0; h < n_held; ++h) {
    const InterleavedQueries queries(q_.const_data_ptr<float>() + h * group * head_dim_, group, head_dim_,
                                     k.scalar_type());
    const auto scores = rows_of(scores_, h, group, first);
    with_rows(k, h, [&](const auto* rows) {
      kernels::multiply_rows(queries.data(), group, head_dim_, rows, 0, k.size(1), scores.data, scores.stride);
    });
  }
}

void CompressedAttention::weigh(const at::Tensor& v, int64_t first) {
  const int64_t n_held = v.size(0), group = q_.size(0) / n_held;
  for (int64_t h = 0; h < n_held; ++h) {
    const auto weights = const_rows_of(scores_, h, group, first);
    const auto out = rows_of(out_, h, group);
    with_rows(v, h, [&](const auto* rows) {
      kernels::mix_rows(weights.data, weights.stride, group, rows, v.size(1), head_dim_, out.data, out.stride);
    });
  }
}

void CompressedAttention::add_scores(const at::Tensor& scores, int64_t first) {
  scores_.narrow(1, first, scores.size(1)).add_(scores);
}

at::Tensor CompressedAttention::weights(int64_t first, int64_t n_tokens) const {
  return scores_.narrow(1, first, n_tokens);
}

void CompressedAttention::softmax() { softmax(std::vector<int64_t>(static_cast<size_t>(n_kv_heads_), n_hidden_)); }

void CompressedAttention::softmax(std::span<const int64_t> n_hidden) {
  for (int64_t i = 0; i < scores_.size(0); ++i) {
    const int64_t hidden = n_hidden[static_cast<size_t>(i / group_)];
    float* scores = scores_.data_ptr<float>() + i * n_tokens_;
    std::fill(scores, scores + hidden, 0.f);
    kernels::softmax(scores + hidden, n_tokens_ - hidden);
  }
}

at::Tensor CompressedAttention::out() const { return out_.unsqueeze(1); }

}  // namespace kvc
