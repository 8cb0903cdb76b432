#include "model/prefill_attention.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "kernels/row_products.h"
#include "model/ops.h"

namespace kvc {
namespace {

// [H, T, D] -> [H, ceil(T / kRowBucket), D, kRowBucket] fp32
at::Tensor panels_of(const at::Tensor& k) {
  const int64_t n_heads = k.size(0), n_tokens = k.size(1), head_dim = k.size(2);
  const int64_t n_panels = (n_tokens + kRowBucket - 1) / kRowBucket;
  auto panels = at::zeros({n_heads, n_panels, head_dim, kRowBucket}, at::kFloat);
  const auto wide = k.to(at::kFloat);
  const float* from = wide.const_data_ptr<float>();
  float* to = panels.mutable_data_ptr<float>();
  for (int64_t h = 0; h < n_heads; ++h) {
    for (int64_t t = 0; t < n_tokens; ++t, from += head_dim) {
      float* column = to + ((h * n_panels + t / kRowBucket) * head_dim) * kRowBucket + t % kRowBucket;
      for (int64_t j = 0; j < head_dim; ++j) column[j * kRowBucket] = from[j];
    }
  }
  return panels;
}

// One KV head's keys and values, and a query head's sink (null: none).
struct HeadView {
  const float *panels, *v;
  int64_t head_dim, window;
  float softcap;
  const float* sink;
};

// One query head. q [kRowBucket, D] times scale; out: rows of H_q*D
void attend_head(const float* q, const HeadView& kv, int64_t first, float* out, int64_t out_stride) {
  const int64_t d = kv.head_dim, begin = kv.window > 0 ? std::max<int64_t>(0, first - kv.window + 1) : 0;
  const int64_t first_panel = begin / kRowBucket, from = first_panel * kRowBucket, end = first + kRowBucket;
  const int64_t n_panels = (end + kRowBucket - 1) / kRowBucket - first_panel, stride = n_panels * kRowBucket;
  std::vector<float> scores(static_cast<size_t>(kRowBucket * stride));
  for (int64_t p = 0; p < n_panels; ++p) {
    kernels::mix_rows(q, d, kRowBucket, kv.panels + (first_panel + p) * d * kRowBucket, d, kRowBucket,
                      scores.data() + p * kRowBucket, stride);
  }
  for (int64_t r = 0; r < kRowBucket; ++r) {
    float* row = scores.data() + r * stride;
    const int64_t seen_end = first + r + 1 - from;
    const int64_t seen_begin = kv.window > 0 ? std::max<int64_t>(0, seen_end - kv.window) : 0;
    if (kv.softcap > 0) kernels::softcap(row + seen_begin, seen_end - seen_begin, kv.softcap);
    kernels::softmax(row + seen_begin, seen_end - seen_begin, kv.sink);
    std::fill(row, row + seen_begin, 0.f);
    std::fill(row + seen_end, row + stride, 0.f);
    std::fill_n(out + r * out_stride, d, 0.f);
  }
  kernels::mix_rows(scores.data() + begin - from, stride, kRowBucket, kv.v + begin * d, end - begin, d, out,
                    out_stride);
}

}  // namespace

PrefillAttention::PrefillAttention(const at::Tensor& k, const at::Tensor& v, const LayerInfo& info)
    : info_(info), panels_(k.is_cpu() ? panels_of(k) : k), v_(k.is_cpu() ? v.to(at::kFloat) : v) {}

at::Tensor PrefillAttention::attend(const at::Tensor& q, int64_t row, int64_t first) const {
  if (!q.is_cpu()) return portable::attend_bucket(q, panels_, v_, row, first, info_);
  const int64_t n_heads = q.size(0), group = n_heads / v_.size(0), head_dim = q.size(2);
  const auto scaled =
      q.narrow(1, row, kRowBucket).to(at::kFloat).mul(info_.attention_scale).contiguous();  // [H_q, 64, D]
  auto out = at::empty({kRowBucket, n_heads * head_dim}, at::kFloat);
  const float* queries = scaled.const_data_ptr<float>();
  const float* sinks = info_.sinks.defined() ? info_.sinks.const_data_ptr<float>() : nullptr;
  float* result = out.mutable_data_ptr<float>();
  at::parallel_for(0, n_heads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t h = begin; h < end; ++h) {
      const int64_t held = h / group;
      const HeadView kv{.panels = panels_.const_data_ptr<float>() + held * panels_.stride(0),
                        .v = v_.const_data_ptr<float>() + held * v_.stride(0),
                        .head_dim = head_dim,
                        .window = info_.sliding_window,
                        .softcap = static_cast<float>(info_.logit_softcap),
                        .sink = sinks ? sinks + h : nullptr};
      attend_head(queries + h * kRowBucket * head_dim, kv, first, result + h * head_dim, n_heads * head_dim);
    }
  });
  return out;
}

bool PrefillAttention::has_all() const {
  return !v_.is_cpu() && v_.scalar_type() != at::kFloat && info_.sliding_window == 0 && info_.logit_softcap == 0 &&
         !info_.sinks.defined();
}

// After a prefix the mask is a tensor, for some queries at a time.
at::Tensor PrefillAttention::attend_all(const at::Tensor& q, int64_t first) const {
  constexpr int64_t kMaskedQueries = 1024;
  const int64_t n = q.size(1), step = first == 0 ? n : kMaskedQueries;
  std::vector<at::Tensor> runs;
  for (int64_t row = 0; row < n; row += step) {
    const int64_t n_rows = std::min(step, n - row), n_keys = first + row + n_rows;
    const auto part = [&](const at::Tensor& x, int64_t from, int64_t count) {
      return x.narrow(1, from, count).unsqueeze(0);
    };
    std::optional<at::Tensor> mask;
    if (first > 0) {
      mask = at::ones({n_rows, n_keys}, q.options().dtype(at::kBool)).tril(first + row);
    }
    runs.push_back(at::scaled_dot_product_attention(part(q, row, n_rows), part(panels_, 0, n_keys), part(v_, 0, n_keys),
                                                    mask, /*dropout_p=*/0, /*is_causal=*/first == 0,
                                                    info_.attention_scale, /*enable_gqa=*/true));
  }
  const auto out = runs.size() == 1 ? runs.front() : at::cat(runs, 2);  // [1, H_q, T_q, D]
  return out.squeeze(0).transpose(0, 1).reshape({n, q.size(0) * q.size(2)});
}

at::Tensor portable::attend_bucket(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, int64_t row,
                                   int64_t first, const LayerInfo& info) {
  const int64_t window = info.sliding_window, n_heads = q.size(0), n_kv_heads = k.size(0), head_dim = q.size(2);
  const int64_t begin = window > 0 ? std::max<int64_t>(0, first - window + 1) : 0, n = first + kRowBucket - begin;
  const auto grouped =
      q.narrow(1, row, kRowBucket).to(at::kFloat).reshape({n_kv_heads, -1, head_dim});  // [H_kv, G*64, D]
  const auto keys = k.narrow(1, begin, n).to(at::kFloat), values = v.narrow(1, begin, n).to(at::kFloat);
  const auto scores = at::bmm(grouped, keys.transpose(1, 2)).mul_(info.attention_scale);  // [H_kv, G*64, n]
  const auto all = at::ones({kRowBucket, n}, keys.options().dtype(at::kBool));
  auto hidden = all.triu(first - begin + 1);
  if (window > 0) hidden.logical_or_(all.tril(first - window - begin));
  const auto weights = attention_weights(scores.view({n_heads, kRowBucket, n}), hidden, info);
  const auto attended = at::bmm(weights.view(scores.sizes()), values);  // [H_kv, G*64, D]
  return attended.view({n_heads, kRowBucket, head_dim}).transpose(0, 1).reshape({kRowBucket, n_heads * head_dim});
}

}  // namespace kvc
