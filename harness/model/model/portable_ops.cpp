#include "model/portable_ops.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "model/quantized_linear.h"

namespace kvc::portable {
namespace {

// x [..., D] fp32, table rows [R/2] broadcast over it: channel i with channel i + R/2
at::Tensor rotated(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin) {
  const int64_t half = cos.size(-1), rest = x.size(-1) - 2 * half;
  const auto a = x.narrow(-1, 0, half), b = x.narrow(-1, half, half);
  return at::cat({a * cos - b * sin, b * cos + a * sin, x.narrow(-1, 2 * half, rest)}, -1);
}

// merged [T, n*D] -> heads [T, H, D] of it, a view
at::Tensor heads_of(const at::Tensor& merged, int64_t first_head, int64_t n_heads, int64_t head_dim) {
  return merged.narrow(1, first_head * head_dim, n_heads * head_dim).unflatten(1, {n_heads, head_dim});
}

}  // namespace

void normalize_heads_(at::Tensor& merged, int64_t first_head, int64_t n_heads, const at::Tensor& weight, double eps) {
  auto heads = heads_of(merged, first_head, n_heads, weight.size(0));
  const auto wide = heads.to(at::kFloat);
  heads.copy_(weight * (wide * wide.square().mean(-1, true).add_(eps).rsqrt_()));
}

at::Tensor linear_rows(const at::Tensor& x, const Linear& w) {
  const auto wide = expanded(w, x.scalar_type());
  const int64_t n_rows = x.size(0), n_padded = (n_rows + kRowBucket - 1) / kRowBucket * kRowBucket;
  auto padded = at::zeros({n_padded, x.size(1)}, x.options());
  padded.narrow(0, 0, n_rows).copy_(x);
  return linear_buckets(padded, wide).narrow(0, 0, n_rows);
}

void split_heads_(const at::Tensor& merged, int64_t first_head, const RopeTable& rope, int64_t first_token,
                  at::Tensor& out) {
  const auto heads = heads_of(merged, first_head, out.size(0), out.size(2)).transpose(0, 1);  // [H, T, D]
  auto place = out.narrow(1, first_token, merged.size(0));
  place.copy_(rope.cos.defined() ? rotated(heads.to(at::kFloat), rope.cos, rope.sin) : heads);
}

void rotate_heads_(at::Tensor& merged, int64_t n_heads, int64_t head_dim, const RopeTable& rope) {
  if (!rope.cos.defined()) return;
  auto heads = heads_of(merged, 0, n_heads, head_dim);  // [T, H, D]
  heads.copy_(rotated(heads.to(at::kFloat), rope.cos.unsqueeze(1), rope.sin.unsqueeze(1)));
}

at::Tensor gated(const at::Tensor& gate_up, Activation activation) {
  const auto halves = gate_up.chunk(2, 1);
  return (activation == Activation::gelu_tanh ? at::gelu(halves[0], "tanh") : at::silu(halves[0])).mul_(halves[1]);
}

at::Tensor embedding_rows(const at::Tensor& table, std::span<const int64_t> ids, int64_t n_rows) {
  const auto n_ids = static_cast<int64_t>(ids.size());
  auto rows = at::zeros({n_rows, table.size(1)}, table.options());
  const auto index = at::tensor(at::ArrayRef<int64_t>(ids.data(), ids.size()), at::kLong).to(table.device());
  rows.narrow(0, 0, n_ids).copy_(table.index_select(0, index));
  return rows;
}

}  // namespace kvc::portable
