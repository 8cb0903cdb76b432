#include "kvc/quant/corrected_codes.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace kvc {
namespace {

// x with the entries of S replaced as `fill` says.
at::Tensor filled(const at::Tensor& tokens, const at::Tensor& mask, Fill fill, GroupAxis axis) {
  if (fill == Fill::masked) return tokens;
  const auto x = tokens.to(at::kFloat);
  if (fill == Fill::zero) return x.masked_fill(mask, 0);
  const auto mean = axis == GroupAxis::tokens ? x.mean(1, true) : x.mean(at::IntArrayRef({0, 2}), true);
  return at::where(mask, mean, x);
}

// Tokens with a low-rank part, of n.
int64_t low_rank_tokens(const CorrectionFormat& format, int64_t n) {
  return format.rank == 0 ? 0 : static_cast<int64_t>(std::nearbyint(format.low_rank_share * static_cast<double>(n)));
}

LowRank of_all_heads(const std::vector<LowRank>& parts) {
  if (parts.size() == 1) return parts.front();
  std::vector<at::Tensor> a, b;
  for (const auto& part : parts) a.push_back(part.a), b.push_back(part.b);
  return {.a = at::cat(a), .b = at::cat(b)};
}

constexpr int64_t kSomeNumbers = 1 << 21;  // of heads that are corrected together, in memory that is used again

// S and L of what the codes leave, some heads at a time: tensors of the prompt's length would each be new memory.
void correct(const at::Tensor& x, const CorrectionFormat& format, int64_t n_low_rank, at::Generator& generator,
             CorrectedCodes& chunk) {
  const int64_t n_heads = x.size(0), n_tokens = x.size(1);
  const int64_t some = x.is_cpu() ? std::clamp<int64_t>(kSomeNumbers / (n_tokens * x.size(2)), 1, n_heads) : n_heads;
  const auto start =
      n_low_rank == 0 ? at::Tensor() : low_rank_start(generator, n_heads, n_low_rank, x.size(2), format.rank);
  const int64_t n_parts = (n_heads + some - 1) / some;
  std::vector<LowRank> parts(static_cast<size_t>(n_low_rank == 0 ? 0 : n_parts));
  const bool has_entries = chunk.outliers.index.defined();
  if (has_entries && x.is_cpu()) chunk.outliers.values = at::empty(chunk.outliers.index.sizes(), at::kFloat);
  chunk.low_rank_first = n_low_rank == 0 ? 0 : n_tokens - n_low_rank;
  const auto correct_part = [&](int64_t part) {
    const int64_t first = part * some, n = std::min(some, n_heads - first);
    const auto of_heads = x.narrow(0, first, n);
    auto left = of_heads.to(at::kFloat, /*non_blocking=*/false, /*copy=*/true, at::MemoryFormat::Contiguous);
    if (format.groups) left.sub_(chunk.codes.heads(first, n).dequantize());
    if (has_entries) take_values(chunk.outliers, left, first);
    if (n_low_rank == 0) return;
    const auto last = left.narrow(1, chunk.low_rank_first, n_low_rank).contiguous();
    parts[part] =
        low_rank_approximation(last, start.narrow(0, first, n).to(x.device()), format.loops, format.precision);
  };
  at::parallel_for(0, n_parts, 1, [&](int64_t part, int64_t end) {
    for (; part < end; ++part) correct_part(part);
  });
  if (has_entries) round_values(chunk.outliers, format.precision);
  if (n_low_rank > 0) chunk.low_rank = of_all_heads(parts);
  if (n_low_rank > 0 && format.factor_bits == 8) {
    chunk.low_rank = with_factors_of_8_bits(chunk.low_rank, format.precision);
  }
}

}  // namespace

Fill fill_named(const std::string& name) {
  KVC_CHECK(name == "masked" || name == "zero" || name == "mean", "fill '", name, "', allowed: masked, zero, mean");
  return name == "masked" ? Fill::masked : name == "zero" ? Fill::zero : Fill::mean;
}

CorrectedCodes encode_corrected(const at::Tensor& x, Outliers entries, const CorrectionFormat& format,
                                at::Generator& generator) {
  CorrectedCodes chunk;
  chunk.n_heads = x.size(0), chunk.n_tokens = x.size(1), chunk.head_dim = x.size(2);
  chunk.outliers = std::move(entries);
  const bool has_entries = chunk.outliers.index.defined();
  at::Tensor mask;  // [H, T, D]
  if (has_entries) mask = outlier_mask(chunk.outliers, x.size(0), x.size(1), x.size(2));
  if (format.groups)
    chunk.codes = quantize_groups(has_entries ? filled(x, mask, format.fill, chunk.outliers.axis) : x, *format.groups,
                                  format.fill == Fill::masked ? mask : at::Tensor());
  const int64_t n_low_rank = low_rank_tokens(format, x.size(1));
  if (has_entries || n_low_rank > 0) correct(x, format, n_low_rank, generator, chunk);
  return chunk;
}

void skip_corrected(at::IntArrayRef sizes, const CorrectionFormat& format, at::Generator& generator) {
  const int64_t n_low_rank = low_rank_tokens(format, sizes[1]);
  if (n_low_rank > 0) low_rank_start(generator, sizes[0], n_low_rank, sizes[2], format.rank);
}

at::Tensor CorrectedCodes::dequantize() const {
  at::Tensor x;
  if (codes.codes.defined()) {
    x = codes.dequantize();
  } else {
    const auto& held = low_rank.a.defined() ? low_rank.a : outliers.values;
    const auto options = at::TensorOptions(at::kFloat);
    x = at::zeros({n_heads, n_tokens, head_dim}, held.defined() ? options.device(held.device()) : options);
  }
  if (low_rank.a.defined()) x.narrow(1, low_rank_first, low_rank.a.size(1)).add_(low_rank.product());
  outliers.add_to_(x);
  return x;
}

void CorrectedCodes::score(CompressedAttention& attention, int64_t first) const {
  if (codes.codes.defined()) attention.score(codes, first);
  attention.score(low_rank, first + low_rank_first);
  attention.score(outliers, first, n_tokens);
}

void CorrectedCodes::accumulate_v(CompressedAttention& attention, int64_t first) const {
  if (codes.codes.defined()) attention.accumulate_v(codes, first);
  attention.accumulate_v(low_rank, first + low_rank_first);
  attention.accumulate_v(outliers, first);
}

void CorrectedCodes::add_to(Footprint& bytes, CacheTensor tensor) const {
  codes.add_to(bytes, tensor);
  low_rank.add_to(bytes, tensor);
  outliers.add_to(bytes, tensor);
}

}  // namespace kvc
