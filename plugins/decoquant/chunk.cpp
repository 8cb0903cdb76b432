#include "chunk.h"

#include <ATen/ATen.h>
#include <kvc/value_checks.h>

#include "factors.h"

namespace decoquant {
namespace {

constexpr int64_t kMaxRow = 1024;  // codes a row that CompressedAttention's loops hold

at::Tensor stored(const at::Tensor& x, kvc::Precision precision) {
  const auto held = x.to(kvc::storage_type(precision)).contiguous();
  kvc::check_values(held.isfinite(), [] { return "decoquant: a factor is not finite, or beyond fp16 (65504)"; });
  return held.is_alias_of(x) ? held.clone() : held;
}

// Rows [T, X] in parts that query heads can read apart: those of a KV head, or those of a block of c channels.
at::Tensor in_parts(const at::Tensor& rows, int64_t n_parts) {
  return rows.reshape({rows.size(0), n_parts, rows.size(1) / n_parts}).transpose(0, 1);
}

int64_t n_parts_of(int64_t n_heads, int64_t head_dim, int64_t c) {
  if (head_dim % c == 0) return n_heads;
  return c % head_dim == 0 ? n_heads * head_dim / c : 1;
}

// The quantizer of both: symmetric, one step a row over all heads.
kvc::GroupCodes row_codes(const at::Tensor& x, int64_t bits, kvc::Precision precision) {
  return kvc::quantize_groups(
      x.to(at::kFloat),
      {.bits = bits, .axis = kvc::GroupAxis::channels, .merge_heads = true, .precision = precision, .symmetric = true});
}

// tensor: [r, f, r'] or [r, f]
SmallTensor small_tensor(const at::Tensor& tensor, const Format& format) {
  SmallTensor small{.exact = {}, .codes = {}, .shape = tensor.sizes().vec()};
  if (format.small_bits == 16) {
    small.exact = stored(tensor, format.precision);
  } else {
    small.codes = row_codes(tensor.flatten(1).unsqueeze(0), format.small_bits, format.precision);
  }
  return small;
}

void set_large(Chunk& chunk, const at::Tensor& rows, int64_t n_parts, const Format& format) {
  const auto parts = in_parts(rows, n_parts);
  if (format.bits == 16) {
    chunk.large = stored(parts, format.precision);
    return;
  }
  chunk.codes = row_codes(parts, format.bits, format.precision);
}

}  // namespace

Chunk encode(const at::Tensor& x, const Format& format) {
  Chunk chunk;
  chunk.n_heads = x.size(0), chunk.n_tokens = x.size(1), chunk.head_dim = x.size(2);
  const int64_t channels = chunk.n_heads * chunk.head_dim;
  const auto merged = x.transpose(0, 1).reshape({chunk.n_tokens, channels}).to(at::kDouble);
  int64_t c = 1;
  for (const int64_t factor : format.factors) c *= factor;
  if (format.form != Form::icl) c = channels;
  const auto matrix = merged.view({chunk.n_tokens * channels / c, c});
  const auto factors = format.form == Form::qr ? qr_factors(matrix) : balanced(matrix);
  chunk.transposed = format.form == Form::lm || (format.form != Form::icl && chunk.n_tokens < channels);
  if (chunk.transposed) {
    set_large(chunk, factors.b.t(), 1, format);
    chunk.small = {small_tensor(factors.a, format)};
    return chunk;
  }
  set_large(chunk, factors.a.reshape({chunk.n_tokens, channels / c * factors.a.size(1)}),
            n_parts_of(chunk.n_heads, chunk.head_dim, c), format);
  const auto tensors =
      format.form == Form::icl ? chain(factors, format.factors) : std::vector<at::Tensor>{factors.b.unsqueeze(2)};
  for (const auto& tensor : tensors) chunk.small.push_back(small_tensor(tensor, format));
  return chunk;
}

at::Tensor SmallTensor::values() const { return exact.defined() ? exact : codes.dequantize().view(shape); }

at::Tensor Chunk::right() const {
  std::vector<at::Tensor> tensors;
  for (const auto& tensor : small) tensors.push_back(tensor.values());
  return multiplied(tensors);
}

at::Tensor Chunk::large_tensor() const { return large.defined() ? large.to(at::kFloat) : codes.dequantize(); }

at::Tensor Chunk::small_tensors() const {
  std::vector<at::Tensor> all;
  for (const auto& tensor : small) all.push_back(tensor.values().flatten().to(at::kFloat));
  return at::cat(all);
}

at::Tensor Chunk::dequantize() const {
  const auto parts = large_tensor();
  at::Tensor merged;
  if (transposed) {
    merged = at::matmul(small[0].values().to(at::kFloat), parts[0].t());
  } else {
    const auto t_s = right();
    merged = at::matmul(parts.transpose(0, 1).reshape({-1, t_s.size(0)}), t_s);
  }
  return merged.view({n_tokens, n_heads, head_dim}).transpose(0, 1).contiguous();
}

bool Chunk::attends() const {
  if (transposed || large.defined() || codes.head_dim > kMaxRow) return false;
  const int64_t c = n_heads * head_dim * small[0].shape[0] / (codes.n_heads * codes.head_dim);
  return head_dim % c == 0 || c % head_dim == 0;
}

// q . x^_t = step_t * sum_r code_tr (T_S q)_r: the query is taken to the codes' basis, not K to its own.
void Chunk::score(kvc::CompressedAttention& attention, int64_t first) const {
  const auto t_s = right();
  const int64_t r = t_s.size(0), c = t_s.size(1), n_q = attention.q().size(0);
  if (head_dim % c == 0) {
    const auto transformed = at::matmul(attention.q().view({n_q * head_dim / c, c}), t_s.t());
    attention.score(transformed.view({n_q, codes.head_dim}), codes, first);
    return;
  }
  const int64_t heads = c / head_dim;  // KV heads a block of c channels spans
  const auto q = attention.q().view({codes.n_heads, heads, n_q / n_heads, head_dim});
  const auto by_head = t_s.view({r, heads, head_dim}).permute({1, 2, 0});  // [heads, D, r]
  attention.score(at::matmul(q, by_head).reshape({n_q, r}), codes, first);
}

void Chunk::accumulate_v(kvc::CompressedAttention& attention, int64_t first) const {
  const auto t_s = right();
  const int64_t r = t_s.size(0), c = t_s.size(1), n_q = attention.q().size(0), d = head_dim;
  const auto sums = at::zeros({n_q, codes.head_dim}, attention.q().options());  // [H_q, D_all/c * r / parts]
  attention.accumulate_v(codes, first, sums);
  if (head_dim % c == 0) {
    attention.then([&attention, sums, t_s, r, n_q, d] {
      attention.add_out(at::matmul(sums.view({-1, r}), t_s).view({n_q, d}));
    });
    return;
  }
  const int64_t heads = c / head_dim;
  const auto by_head = t_s.view({r, heads, head_dim}).permute({1, 0, 2});  // [heads, r, D]
  const auto parts = sums.view({codes.n_heads, heads, n_q / n_heads, r});
  attention.then([&attention, parts, by_head, n_q, d] {
    attention.add_out(at::matmul(parts, by_head).reshape({n_q, d}));
  });
}

void Chunk::add_to(kvc::Footprint& bytes, kvc::CacheTensor tensor) const {
  codes.add_to(bytes, tensor);
  bytes.add(tensor, kvc::ByteKind::low_rank, large);
  for (const auto& part : small) {
    part.codes.add_to(bytes, tensor);
    bytes.add(tensor, kvc::ByteKind::low_rank, part.exact);
  }
}

}  // namespace decoquant
