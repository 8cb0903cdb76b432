#include "kvc/quant/attend_exact.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "exact_rows.h"

namespace kvc {
namespace {

// The group of query heads that read KV head h: q, out [G, D] fp32, q times scale.
void attend_head(const ExactTokens& x, int64_t h, const float* q, const LayerInfo& info, int64_t n_hidden, float* out) {
  const int64_t group = info.n_heads / info.n_kv_heads, head_dim = info.head_dim;
  const float* sinks = info.sinks.defined() ? info.sinks.const_data_ptr<float>() + h * group : nullptr;
  const int64_t n_tokens = x.k->n_tokens();
  std::vector<float> scores(static_cast<size_t>(group * n_tokens));
  const InterleavedQueries queries(q, group, head_dim, x.k->blocks().front().scalar_type());
  for_each_rows(*x.k, h, [&](const auto* rows, int64_t n, int64_t first) {
    kernels::multiply_rows(queries.data(), group, head_dim, rows, 0, n, scores.data() + first, n_tokens);
  });
  for (int64_t i = 0; i < group; ++i) {
    float* row = scores.data() + i * n_tokens;
    std::fill(row, row + n_hidden, 0.f);
    if (info.logit_softcap > 0)
      kernels::softcap(row + n_hidden, n_tokens - n_hidden, static_cast<float>(info.logit_softcap));
    kernels::softmax(row + n_hidden, n_tokens - n_hidden, sinks ? sinks + i : nullptr);
  }
  std::fill(out, out + group * head_dim, 0.f);
  for_each_rows(*x.v, h, [&](const auto* rows, int64_t n, int64_t first) {
    kernels::mix_rows(scores.data() + first, n_tokens, group, rows, n, head_dim, out, head_dim);
  });
}

}  // namespace

void attend_exact(std::span<const ExactTokens> sequences, std::span<const at::Tensor> q, double scale,
                  const LayerInfo& info, at::Tensor& out) {
  const auto n = static_cast<int64_t>(sequences.size());
  const int64_t n_kv_heads = info.n_kv_heads, group = info.n_heads / n_kv_heads, head_dim = info.head_dim;
  std::vector<at::Tensor> scaled;  // [H_q, D] fp32
  for (const auto& query : q) {
    KVC_CHECK(query.numel() == info.n_heads * head_dim, "attend: q is ", query.sizes(), ", expected [", info.n_heads,
              ", 1, ", head_dim, "]");
    scaled.push_back(query.reshape({info.n_heads, head_dim}).to(at::kFloat).mul(scale));
  }
  float* result = out.mutable_data_ptr<float>();
  at::parallel_for(0, n * n_kv_heads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      const int64_t b = task / n_kv_heads, h = task % n_kv_heads;
      const auto& tokens = sequences[static_cast<size_t>(b)];
      const int64_t n_tokens = tokens.k->n_tokens();
      const int64_t n_hidden = info.sliding_window > 0 ? std::max<int64_t>(0, n_tokens - info.sliding_window) : 0;
      attend_head(tokens, h, scaled[static_cast<size_t>(b)].const_data_ptr<float>() + h * group * head_dim, info,
                  n_hidden, result + (b * n_kv_heads + h) * group * head_dim);
    }
  });
}

}  // namespace kvc
