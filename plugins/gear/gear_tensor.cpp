#include "gear_tensor.h"

#include <ATen/ATen.h>

namespace gear {
namespace {

// x with its outliers replaced as `fill` says.
at::Tensor filled(const at::Tensor& x, const at::Tensor& mask, const Format& format) {
  if (format.fill == Fill::masked) return x;
  if (format.fill == Fill::zero) return x.masked_fill(mask, 0);
  const auto mean =
      format.outlier_axis == kvc::GroupAxis::tokens ? x.mean(1, true) : x.mean(at::IntArrayRef({0, 2}), true);
  return at::where(mask, mean, x);
}

}  // namespace

Chunk encode(const at::Tensor& x, const Format& format, int64_t rank, at::Generator& generator) {
  Chunk chunk;
  chunk.outliers = kvc::find_outliers(x, format.sparsity, format.outlier_axis);
  const bool has_outliers = chunk.outliers.index.defined();
  at::Tensor mask;  // [H, T, D]
  if (has_outliers) mask = kvc::outlier_mask(chunk.outliers, x.size(0), x.size(1), x.size(2));
  chunk.codes = kvc::quantize_groups(has_outliers ? filled(x, mask, format) : x, format.groups,
                                     format.fill == Fill::masked ? mask : at::Tensor());
  if (!has_outliers && rank == 0) return chunk;
  auto quant_error = x - chunk.codes.dequantize();
  if (has_outliers) {
    kvc::set_values(chunk.outliers, quant_error, format.precision);
    quant_error.masked_fill_(mask, 0);
  }
  if (rank > 0) {
    const auto start = kvc::low_rank_start(generator, x.size(0), x.size(1), x.size(2), rank).to(x.device());
    chunk.low_rank = kvc::low_rank_approximation(quant_error.contiguous(), start, format.loops, format.precision);
  }
  return chunk;
}

at::Tensor Chunk::dequantize() const {
  auto x = codes.dequantize();
  if (low_rank.a.defined()) x = x + low_rank.product();
  outliers.add_to_(x);
  return x;
}

void Chunk::add_to(kvc::Footprint& bytes, kvc::CacheTensor tensor) const {
  codes.add_to(bytes, tensor);
  low_rank.add_to(bytes, tensor);
  outliers.add_to(bytes, tensor);
}

}  // namespace gear
