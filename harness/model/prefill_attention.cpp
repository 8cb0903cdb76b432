#include "model/prefill_attention.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "kernels/row_products.h"
#include "kvc/check.h"
#include "model/ops.h"

namespace kvc {
namespace {

constexpr float kHidden = -std::numeric_limits<float>::infinity();  // added to the score of a key that is not seen

// One query head. q [kRowBucket, D] fp32 times scale; k, v [T, D]; out: rows of H_q*D
template <class W>
void attend_head(const float* q, const W* k, const W* v, int64_t head_dim, int64_t first, int64_t window, float* out,
                 int64_t out_stride) {
  constexpr int64_t kBlock = kernels::block_size<W>();
  const int64_t begin = window > 0 ? std::max<int64_t>(0, first - window + 1) : 0, n = first + kRowBucket - begin;
  const int64_t padded = (head_dim + kBlock - 1) / kBlock * kBlock;
  std::vector<float> rows(static_cast<size_t>(kRowBucket * padded)), scores(static_cast<size_t>(kRowBucket * n));
  for (int64_t r = 0; r < kRowBucket; ++r) {
    kernels::interleave(q + r * head_dim, head_dim, kBlock, rows.data() + r * padded);
  }
  kernels::multiply_rows(rows.data(), kRowBucket, head_dim, k + begin * head_dim, 0, n, scores.data(), n);
  for (int64_t r = 0; r < kRowBucket; ++r) {
    float* row = scores.data() + r * n;
    const int64_t seen_end = first + r + 1 - begin;
    const int64_t seen_begin = window > 0 ? std::max<int64_t>(0, seen_end - window) : 0;
    kernels::softmax(row + seen_begin, seen_end - seen_begin);
    std::fill(row, row + seen_begin, 0.f);
    std::fill(row + seen_end, row + n, 0.f);
    std::fill_n(out + r * out_stride, head_dim, 0.f);
  }
  kernels::mix_rows(scores.data(), n, kRowBucket, v + begin * head_dim, n, head_dim, out, out_stride);
}

template <class W>
at::Tensor attend_bucket_of(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, int64_t row, int64_t first,
                            int64_t window, double scale) {
  const int64_t n_heads = q.size(0), group = n_heads / k.size(0), n_tokens = k.size(1), head_dim = q.size(2);
  const auto scaled = q.narrow(1, row, kRowBucket).to(at::kFloat).mul(scale).contiguous();  // [H_q, 64, D]
  auto out = at::empty({kRowBucket, n_heads * head_dim}, at::kFloat);
  const float* queries = scaled.const_data_ptr<float>();
  const auto *keys = static_cast<const W*>(k.const_data_ptr()), *values = static_cast<const W*>(v.const_data_ptr());
  float* result = out.mutable_data_ptr<float>();
  at::parallel_for(0, n_heads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t h = begin; h < end; ++h) {
      const int64_t held = h / group * n_tokens * head_dim;
      attend_head(queries + h * kRowBucket * head_dim, keys + held, values + held, head_dim, first, window,
                  result + h * head_dim, n_heads * head_dim);
    }
  });
  return out;
}

}  // namespace

at::Tensor attend_bucket(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, int64_t row, int64_t first,
                         int64_t window, double scale) {
  if (!q.is_cpu()) return portable::attend_bucket(q, k, v, row, first, window, scale);
  switch (k.scalar_type()) {
    case at::kFloat:
      return attend_bucket_of<float>(q, k, v, row, first, window, scale);
    case at::kHalf:
      return attend_bucket_of<kernels::Fp16>(q, k, v, row, first, window, scale);
    case at::kBFloat16:
      return attend_bucket_of<kernels::Bf16>(q, k, v, row, first, window, scale);
    default:
      throw Error(
          concat("attention: keys of type ", at::toString(k.scalar_type()), ", supported: Float, Half, BFloat16"));
  }
}

at::Tensor portable::attend_bucket(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, int64_t row,
                                   int64_t first, int64_t window, double scale) {
  const int64_t n_heads = q.size(0), n_kv_heads = k.size(0), head_dim = q.size(2);
  const int64_t begin = window > 0 ? std::max<int64_t>(0, first - window + 1) : 0, n = first + kRowBucket - begin;
  const auto grouped =
      q.narrow(1, row, kRowBucket).to(at::kFloat).reshape({n_kv_heads, -1, head_dim});  // [H_kv, G*64, D]
  const auto keys = k.narrow(1, begin, n).to(at::kFloat), values = v.narrow(1, begin, n).to(at::kFloat);
  auto scores = at::bmm(grouped, keys.transpose(1, 2)).mul_(scale);  // [H_kv, G*64, n]
  auto by_head = scores.view({n_heads, kRowBucket, n});
  const auto hidden = at::full({kRowBucket, n}, kHidden, keys.options());
  by_head.add_(at::triu(hidden, first - begin + 1));
  if (window > 0) by_head.add_(at::tril(hidden, first - window - begin));
  const auto attended = at::bmm(scores.softmax(-1), values);  // [H_kv, G*64, D]
  return attended.view({n_heads, kRowBucket, head_dim}).transpose(0, 1).reshape({kRowBucket, n_heads * head_dim});
}

}  // namespace kvc
